package registry_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/store"
)

// replica is one of the gateways that share a store. It has its server listed again
// when it is told to.
type replica struct {
	*rig
	mu     sync.Mutex
	lists  func() *gate.Offer // what its server lists at the moment
	looked int
}

func newReplica(t *testing.T, on *store.Store, settings registry.Rules, lists func() *gate.Offer) *replica {
	p := &replica{lists: lists}
	wake := make(chan struct{}, 1)
	r := &rig{
		Registry: registry.New(registry.Options{Store: on, OnOutdated: func(servers []string) {
			if len(servers) != 1 || servers[0] != "s" {
				t.Errorf("asked again: %v", servers)
			}
			wake <- struct{}{}
		}}),
		store: on, by: store.Change{Actor: "alice"},
	}
	r.Configure(settings)
	r.caches()
	p.rig = r
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-wake:
				p.mu.Lock()
				p.looked++
				p.mu.Unlock()
				p.list(t, p.lists())
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return p
}

func (p *replica) looks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looked
}

// What one gateway has found out of a server, the others that share its store find
// out too, and then go by what was decided about it.
func TestReplicasLookAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := openStore(t, store.Options{})
		var mu sync.Mutex
		now := offer(t, "s", tool("x", "one"))
		lists := func() *gate.Offer {
			mu.Lock()
			defer mu.Unlock()
			return now
		}
		changes := func(to *gate.Offer) {
			mu.Lock()
			defer mu.Unlock()
			now = to
		}
		a, b := newReplica(t, on, closed, lists), newReplica(t, on, closed, lists)
		a.list(t, lists())
		b.list(t, lists())
		for _, p := range []*replica{a, b} {
			p.expect(t, "at first", "s", "x", "pass")
		}

		changes(offer(t, "s", tool("x", "two"))) // without a word
		a.list(t, lists())                       // one has a reason to look
		time.Sleep(3 * time.Second)
		for _, p := range []*replica{a, b} {
			p.expect(t, "changed", "s", "x", isHeld)
		}
		a.accept(t, "s__x")
		time.Sleep(3 * time.Second)
		for _, p := range []*replica{a, b} {
			p.expect(t, "accepted", "s", "x", "pass")
		}

		changes(offer(t, "s", tool("x", "two"), tool("y")))
		a.list(t, lists())
		time.Sleep(3 * time.Second)
		b.expect(t, "a tool more", "s", "y", isHeld)
		changes(offer(t, "s", tool("y")))
		b.list(t, lists())
		time.Sleep(3 * time.Second)
		a.expect(t, "a tool less", "s", "x", isGone)
		if a.looks() != 1 || b.looks() != 2 {
			t.Errorf("the servers were asked again %d and %d times, want 1 and 2", a.looks(), b.looks())
		}
	})
}

// A server that lists one thing to one gateway and another to the other is not asked
// for ever.
func TestReplicasThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := openStore(t, store.Options{})
		one, two := offer(t, "s", tool("x", "one")), offer(t, "s", tool("x", "two"))
		a := newReplica(t, on, closed, func() *gate.Offer { return one })
		b := newReplica(t, on, closed, func() *gate.Offer { return two })
		a.list(t, one)
		b.list(t, two)
		time.Sleep(10 * time.Minute)
		a.expect(t, "what was accepted", "s", "x", "pass")
		b.expect(t, "what was not", "s", "x", isHeld)
		if n := a.looks() + b.looks(); n > 2 {
			t.Errorf("%d looks at what stays different", n)
		}
	})
}

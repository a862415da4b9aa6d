package upstream

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// deafSink hears of nothing.
type deafSink struct{}

func (deafSink) Changed(string)     {}
func (deafSink) Happened(mcp.Event) {}

// newServerPool returns a pool that runs, before a server that nobody reaches. What it
// lists to everyone is known.
func newServerPool(t testing.TB, most int) *ServerPool {
	t.Helper()
	known := &mcp.Listing{Items: map[mcp.Kind][]mcp.Item{mcp.Tool: {{Key: "echo"}}}}
	f := NewServerPool(Spec{Key: "s", URL: "http://127.0.0.1:1/mcp"}, ServerPoolOptions{
		Options: Options{Sink: deafSink{}, Credential: Static{}, Logger: slog.New(slog.DiscardHandler)},
		Known:   func(context.Context, string) *mcp.Listing { return known }, Relisted: func() {}, Max: most,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	testwait.Until(t, patience, "the pool", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.life != nil
	})
	return f
}

// whose returns for whom the pool has servers.
func (p *ServerPool) whose() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.servers))
}

// If there is no room for another server, the least recently used one ends.
func TestFullServerPoolsDisplaceTheOldest(t *testing.T) {
	f := newServerPool(t, 3)
	for _, principal := range []string{"a", "b", "c", "a", "a", "c", "d", "a", "e"} {
		if !f.Lists(principal, mcp.Tool, "echo") {
			t.Errorf("%s is listed nothing", principal)
		}
	}
	if got := f.whose(); !slices.Equal(got, []string{"a", "d", "e"}) {
		t.Errorf("there are servers of %q, want of those who were asked for last", got)
	}
}

// A new client declares its extensions to the servers of its own principal alone.
func TestConnectedClientsOfAPrincipal(t *testing.T) {
	f := newServerPool(t, 0)
	alice, bob := f.server("alice"), f.server("bob")
	f.Connected("alice", []byte(withApps))
	if got := string(alice.extensions.known()); !strings.Contains(got, "mcp-app") {
		t.Errorf("alice's server knows %s", got)
	}
	if got := string(bob.extensions.known()); strings.Contains(got, "mcp-app") {
		t.Errorf("bob's server was told of alice's client: %s", got)
	}
	f.Connected("carol", []byte(withApps)) // has no server yet
}

// A server ends after half an hour without use, and starts again when somebody needs it.
func TestIdleServersEnd(t *testing.T) {
	f := newServerPool(t, 0)
	f.server("busy")
	f.server("idle")
	now := time.Now()
	for range 31 {
		f.server("busy") // alone
		f.reapIdle(now)
		now = now.Add(idleCheck)
	}
	f.reapIdle(now)
	if got := f.whose(); !slices.Equal(got, []string{"busy"}) {
		t.Errorf("there are servers of %q", got)
	}
	if _, there := f.byHolder.Load("idle"); there {
		t.Error("who has ended is still asked")
	}
	if !f.Listed("idle", mcp.Tool, "echo") || len(f.whose()) != 2 {
		t.Error("it does not begin again")
	}
}

// A call of a holder that has a server does not wait for operations on all servers.
func TestKnownCallersWaitForNobody(t *testing.T) {
	f := newServerPool(t, 0)
	f.server("a")
	done := make(chan bool, 1)
	f.mu.Lock()
	go func() { done <- f.Lists("a", mcp.Tool, "echo") && f.Listed("a", mcp.Tool, "echo") }()
	select {
	case listed := <-done:
		if !listed {
			t.Error("it is not listed")
		}
	case <-time.After(5 * time.Second):
		t.Error("a call waits for the lock of all")
	}
	f.mu.Unlock()
}

// BenchmarkServerPoolListed measures how long it takes to find the server of a call, which
// each call does several times.
func BenchmarkServerPoolListed(b *testing.B) {
	f := newServerPool(b, 0)
	for i := range 100 {
		f.server(strconv.Itoa(i))
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if !f.Lists(strconv.Itoa(i%100), mcp.Tool, "echo") {
				b.Error("it is not listed")
				return
			}
		}
	})
}

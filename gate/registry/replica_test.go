package registry_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// run keeps a registry up to date until the test is over, as a gateway does.
func (r *rig) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	running.Go(func() { _ = r.store.Watch(ctx, func(string, int64) { r.Changed() }) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// Two gateways on one database: what one decides, the other goes by.
func TestReplicas(t *testing.T) {
	t.Parallel()
	url := shared.SchemaURL(t)
	a := rigOn(t, openStore(t, store.Options{URL: url}), closed)
	b := rigOn(t, openStore(t, store.Options{URL: url}), closed)
	a.run(t)
	b.run(t)
	a.list(t, offer(t, "s", tool("x", "one"), tool("y")))
	b.list(t, offer(t, "s", tool("x", "one"), tool("y")))
	id := a.id(t, "s__x")
	if other := b.id(t, "s__x"); other != id {
		t.Fatalf("two ids of one tool: %s and %s", id, other)
	}
	seen := func(what, want string) {
		t.Helper()
		testwait.Until(t, patience, what, func() bool { return b.says(t, asks("s", "x", alice)) == want })
	}
	must(t, a.SetEnabled(t.Context(), id, false, a.by))
	seen("a disabled tool", "it is disabled in the catalog")
	must(t, a.Flag(t.Context(), id, "acme", true, a.by))
	seen("a flag", "pass")
	must(t, a.Restrict(t.Context(), id, "dev", a.by))
	seen("a restriction", "the persona is kept away from it")
	_, err := a.LiftRestriction(t.Context(), id, "dev")
	must(t, err)
	seen("a restriction that is lifted", "pass")

	// The server changes under both; one of them hears of it first.
	a.list(t, offer(t, "s", tool("x", "two"), tool("y")))
	if got := b.says(t, asks("s", "x", alice)); got != "pass" {
		t.Errorf("what is accepted is served where it is listed: %s", got)
	}
	b.list(t, offer(t, "s", tool("x", "two"), tool("y")))
	b.expect(t, "changed", "s", "x", isHeld)
	a.accept(t, "s__x")
	seen("an acceptance", "pass")
}

// While the store is out of reach everything is denied, with a reason of its
// own; when it is back, decisions are made again, without a restart.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	server := storetest.StartPostgres(t)
	on := openStore(t, store.Options{URL: server.URL(t)})
	r := &rig{
		Registry: registry.New(registry.Options{Store: on, MaxAge: 3 * time.Second}), store: on, by: store.Change{Actor: "alice"},
	}
	r.caches()
	r.Configure(closed)
	r.run(t)
	r.list(t, offer(t, "a", tool("x")))
	testwait.Until(t, patience, "decisions", func() bool { return r.Healthy() == nil && r.says(t, asks("a", "x", alice)) == "pass" })
	server.Kill(t)
	const down = "error: registry_unavailable"
	testwait.Until(t, patience, "denied without a store", func() bool { return r.says(t, asks("a", "x", alice)) == down })
	if err := r.Healthy(); !errors.Is(err, registry.ErrUnavailable) {
		t.Errorf("healthy without a store: %v", err)
	}
	d := gate.NewChain(gate.Open{}, r.Phase()).Decide(t.Context(), asks("a", "x", alice))
	if d.Effect != gate.Deny || d.Reason != "registry_unavailable" || d.Err == nil || d.Phase != registry.Name {
		t.Errorf("the chain: %+v", d)
	}
	if _, err := r.Entries(registry.Filter{}); err == nil {
		t.Error("a catalog that cannot be read is shown")
	}
	// A list that comes while nothing can be recorded is not served afterwards
	// either before it is.
	r.list(t, offer(t, "a", tool("x"), tool("late")))
	server.Start(t)
	testwait.Until(t, patience, "decisions again", func() bool { return r.says(t, asks("a", "x", alice)) == "pass" })
	testwait.Until(t, patience, "the late definition is recorded", func() bool {
		return r.says(t, asks("a", "late", alice)) != "its definition is not recorded in the catalog"
	})
	r.expect(t, "late", "a", "late", isHeld)
}

package registry_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

// openStore opens a store and runs its writer until the test is over.
func openStore(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		s.Close()
	})
	return s
}

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// open are the settings of a gateway without authentication, closed those of
// one with it.
var (
	open   = registry.Rules{DefaultEnabled: true, OnNew: registry.Enable, OnChange: registry.Enable}
	closed = registry.Rules{DefaultEnabled: true, OnNew: registry.Adopt, OnChange: registry.Hold}
)

// rig is a registry with what its test asks it.
type rig struct {
	*registry.Registry
	store  *store.Store
	log    *journal
	by     store.Change
	cached *gate.Chain // caches what the phase decides
}

func newRig(t testing.TB, s registry.Rules) *rig {
	t.Helper()
	return rigOn(t, openStore(t, store.Options{}), s)
}

func rigOn(t testing.TB, on *store.Store, s registry.Rules) *rig {
	t.Helper()
	log := &journal{}
	r := &rig{
		Registry: registry.New(registry.Options{Store: on, Logger: slog.New(slog.NewTextHandler(log, nil))}),
		store:    on, log: log, by: store.Change{Actor: "alice", Reason: "because"},
	}
	r.Configure(s)
	r.caches()
	return r
}

// keeps has the rig hold what the phase says against what a chain keeps of it.
func (r *rig) caches() { r.cached = gate.NewChain(r.Phase(), gate.Open{}) }

// list records what a server lists; items are lines of a kind and a definition.
func (r *rig) list(t testing.TB, servers ...*gate.Offer) {
	t.Helper()
	r.Record(t.Context(), servers)
}

// offer is what a server lists: lines of a kind and an item's JSON. Its
// namespace is its key.
func offer(t testing.TB, server string, lines ...string) *gate.Offer {
	t.Helper()
	o := &gate.Offer{Server: server, Namespace: server, Confirmed: true}
	for _, line := range lines {
		word, raw, _ := strings.Cut(line, " ")
		for _, kind := range mcp.Kinds {
			if kind.String() != word {
				continue
			}
			item, err := mcp.ParseItem(kind, []byte(raw))
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			exposed := server + "__" + item.Key
			if kind == mcp.Resource || kind == mcp.Template {
				exposed = server + "+" + item.Key
			}
			o.Items = append(o.Items, gate.Offered{Kind: kind, Original: item.Key, Exposed: exposed, Definition: item.Raw})
		}
	}
	return o
}

func tool(name string, description ...string) string {
	return fmt.Sprintf(`tool {"name":%s,"description":%s}`, mcp.Quote(name), mcp.Quote(strings.Join(description, " ")))
}

var alice = gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Tenant: "acme", Subject: "alice"}, Persona: "dev"})

// asks is a request to view a tool of a server.
func asks(server, original string, id *gate.Identity) *gate.Request {
	return &gate.Request{Action: gate.View, Kind: mcp.Tool, Server: server, Original: original, Exposed: server + "__" + original, Identity: id}
}

// says is what the phase decides: "pass", or the reason of a deny.
func (r *rig) says(t testing.TB, q *gate.Request) string {
	t.Helper()
	snapshot, cached := r.Phase().Snapshot(q), r.cached.Decide(context.Background(), q)
	d, err := r.Phase().Check(context.Background(), q)
	if passed := err == nil && d.Effect == gate.Abstain; r.Phase().Snapshot(q) == snapshot && passed != (cached.Effect == gate.Allow) {
		t.Fatalf("under the same view it decides %+v, %v, and %+v is cached", d, err, cached)
	}
	e, explained := r.Phase().Explain(context.Background(), q)
	for n := 0; n < 100 && d.Revision != e.Revision; n++ { // the catalog became another one in between
		d, err = r.Phase().Check(context.Background(), q)
		e, explained = r.Phase().Explain(context.Background(), q)
	}
	if (err == nil) != (explained == nil) || d.Effect != e.Effect || d.Reason != e.Reason {
		t.Fatalf("check says %+v, %v and explain %+v, %v", d, err, e, explained)
	}
	switch {
	case err != nil:
		return "error: " + d.Reason
	case d.Effect == gate.Abstain:
		return "pass"
	case d.Effect == gate.Deny:
		return d.Reason
	}
	t.Fatalf("the phase allows: %+v", d)
	return ""
}

// expect checks what the phase says of a tool to alice.
func (r *rig) expect(t testing.TB, when, server, original, want string) {
	t.Helper()
	if got := r.says(t, asks(server, original, alice)); !strings.Contains(got, want) {
		t.Errorf("%s: %s of %s: %q, want %q", when, original, server, got, want)
	}
}

// id returns the capability id of a tool.
func (r *rig) id(t testing.TB, name string) string {
	t.Helper()
	e, err := r.Entry(t.Context(), name, "")
	if err != nil {
		t.Fatal(err)
	}
	return e.ID
}

// accept accepts what is held of a name.
func (r *rig) accept(t testing.TB, name string) {
	t.Helper()
	e, err := r.Entry(t.Context(), name, "")
	if err != nil {
		t.Fatal(err)
	}
	must(t, r.Accept(t.Context(), e.ID, e.Record.HeldHash, r.by))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = time.Minute

const (
	isHeld     = "has not been accepted"
	isDisabled = "disabled in the catalog"
	isOff      = "switched off for the tenant"
	isAway     = "the persona is kept away"
	isGone     = "does not offer it any more"
	isUnknown  = "not recorded"
)

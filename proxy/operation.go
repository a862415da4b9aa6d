package proxy

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// Throttle sets how far the gateway holds back from now on. Calls that run go
// on.
func (g *Gateway) Throttle(t limit.Throttle) {
	g.publisher.mu.Lock() // so that no server is added beside it
	defer g.publisher.mu.Unlock()
	g.throttle.Store(&t)
	for _, s := range g.snapshot.Load().catalog.servers {
		s.slots.Throttle(t)
	}
}

// cutTimeout bounds the wait for calls that were cut to answer their clients.
const cutTimeout = 2 * time.Second

// Drain lets no call begin any more and waits until those under way have ended,
// as long as the context lasts; then the rest are ended, with an answer that says
// so. It returns how many those were. Calls that wait for their client are not
// waited for. It may be called once, before the context of [Gateway.Run] ends.
func (g *Gateway) Drain(ctx context.Context) (cut int) {
	empty := g.inFlight.close()
	select {
	case <-empty:
		return 0
	case <-ctx.Done():
	}
	cut = g.CancelCalls(func(*RunningCall) *refusal.Error { return refusal.Cut })
	timer := time.NewTimer(cutTimeout)
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
	}
	return cut
}

// Dependency is something without which the gateway decides nothing.
type Dependency struct {
	// Name is one word, which anybody may read.
	Name string
	// OK says that it is there.
	OK bool
}

// dependencies are all that the gateway needs to serve, in the order in which the first
// that is missing names the whole. Servers are not among them: a gateway without
// one of them serves the others.
func (hf *httpFront) dependencies() []Dependency {
	all := []Dependency{
		{"stopping", hf.g.life.Err() == nil},
		{"audit", hf.g.opts.Auditor.Healthy() == nil},
	}
	if c := hf.g.config.Load(); c.Dependencies != nil {
		all = append(all, c.Dependencies()...)
	}
	return all
}

// readyz tells whether the gateway serves: in one word, and where that is asked
// for in a line for everything that it needs. It tells everybody, so that it
// says nothing but the words. It never waits for a server.
func (hf *httpFront) readyz(w http.ResponseWriter, verbose bool) {
	all := hf.dependencies()
	status, word := http.StatusOK, "ok"
	var lines strings.Builder
	for i, n := range all {
		if !n.OK && status == http.StatusOK {
			status, word = http.StatusServiceUnavailable, n.Name
		}
		if i == 0 { // that it ends is no need, and said in the first line
			continue
		}
		state := "ok"
		if !n.OK {
			state = "not ready"
		}
		lines.WriteString("\n" + n.Name + " " + state)
	}
	if verbose {
		word += lines.String()
	}
	writePlainText(w, status, word)
}

// Capability is something that the gateway exposes.
type Capability struct {
	Kind             mcp.Kind
	Server, Original string
	Exposed, Plain   string // see [gate.Names]
	CapabilityID     string
	// Schema is the input schema of a tool as its server listed it; nil where
	// there is none. It is not to be changed.
	Schema []byte
}

// Capabilities returns all that the gateway exposes, whoever may view it and
// whichever clients are shown it: by kind, and within a kind sorted by exposed
// name.
func (g *Gateway) Capabilities() []Capability {
	snap := g.snapshot.Load()
	var all []Capability
	for _, kind := range mcp.Kinds {
		seen := make(map[string]bool)
		begin := len(all)
		for _, catalog := range snap.everyCatalog() {
			for _, r := range catalog.lists[kind].entries {
				if seen[r.Exposed] {
					continue
				}
				seen[r.Exposed] = true
				all = append(all, Capability{
					Kind: kind, Server: r.Server, Original: r.Original, Exposed: r.Exposed, Plain: r.Plain,
					CapabilityID: r.CapabilityID, Schema: r.input,
				})
			}
		}
		slices.SortFunc(all[begin:], func(a, b Capability) int { return strings.Compare(a.Exposed, b.Exposed) })
	}
	return all
}

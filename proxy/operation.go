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

// Throttle sets from now on how much load the gateway accepts. Calls under way go on.
func (g *Gateway) Throttle(t limit.Throttle) {
	g.publisher.mu.Lock() // so that no server is added meanwhile
	defer g.publisher.mu.Unlock()
	g.throttle.Store(&t)
	for _, s := range g.snapshot.Load().catalog.servers {
		s.permits.Throttle(t)
	}
}

// cutTimeout bounds the wait for cancelled calls to answer their clients.
const cutTimeout = 2 * time.Second

// Drain stops new calls and waits until those under way have ended. When ctx ends it
// cancels the rest, with a response that says so, and returns their number. Calls that
// wait for input from their client are not waited for. Drain may be called once, before
// the context of [Gateway.Run] ends.
func (g *Gateway) Drain(ctx context.Context) (cut int) {
	empty := g.inFlight.close()
	select {
	case <-empty:
		return 0
	case <-ctx.Done():
	}
	cut = g.CancelCalls(func(*RunningCall) *refusal.Error { return refusal.ShutDown })
	timer := time.NewTimer(cutTimeout)
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
	}
	return cut
}

// Dependency is something without which the gateway cannot decide calls.
type Dependency struct {
	// Name is one word, visible to everybody.
	Name string
	// OK reports whether it is available.
	OK bool
}

// dependencies are what the gateway needs to serve. The first one that is missing names
// the status. Servers are not among them: without one of them the gateway serves the
// others.
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

// readyz reports in one word whether the gateway serves. With verbose it adds a line
// for each dependency. The response is public and holds nothing but these words. readyz
// never waits for a server.
func (hf *httpFront) readyz(w http.ResponseWriter, verbose bool) {
	all := hf.dependencies()
	status, word := http.StatusOK, "ok"
	var lines strings.Builder
	for i, n := range all {
		if !n.OK && status == http.StatusOK {
			status, word = http.StatusServiceUnavailable, n.Name
		}
		if i == 0 { // shutdown is no dependency; the first line reports it
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

// Capability is an item that the gateway exposes.
type Capability struct {
	Kind             mcp.Kind
	Server, Original string
	Exposed, Plain   string // see [gate.Names]
	CapabilityID     string
	// Schema is the input schema of a tool as its server listed it, nil where there is
	// none. It must not be modified.
	Schema []byte
}

// Capabilities returns everything that the gateway exposes to any client, whoever may
// view it. It is grouped by kind and sorted by exposed name.
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

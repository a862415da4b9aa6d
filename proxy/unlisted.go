package proxy

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/names"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// Await waits until it is known what a backend lists to a caller, as long as that may
// take. It does not wait for what the caller is listed already; original is empty for
// what nobody is listed. The error tells why nothing is known: a [mcp.Failure], or the
// cause of a context that ended.
type Await func(ctx context.Context, id *gate.Identity, kind mcp.Capability, original string) error

// listedTime is how long a call waits until what its backend lists is in the catalog.
const listedTime = 5 * time.Second

// find returns what a call is of, nil for what there is not. Where callers sign in to
// the backend that the name is of, it waits for what the caller is about to be listed:
// whoever calls without having listed starts their server by that, and whoever has just
// signed in is not told that there is no such tool because the list is still on its
// way. The error is why nothing is listed to the caller, and from is whose it is.
//
// It comes before the gate, which can say nothing of what is not listed, and before
// the places of the calls that run, so it has places of its own (see [limit.Concurrency.Await]).
// What a caller learns by it is no more than that there is a wait.
func (g *Gateway) find(ctx context.Context, x *Exchange, kind mcp.Capability, name string) (snap *Snapshot, r *Route, from *served, err error) {
	snap = g.snapshot.Load()
	catalog := snap.Catalog(x)
	original := ""
	if r = catalog.resolve(kind, name, x.Scope); r != nil {
		from, original = r.to, r.Original
	} else {
		from = catalog.claims(kind, name, x.Scope)
	}
	if from == nil || from.mount.Await == nil || r != nil && from.mount.Listed != nil && from.mount.Listed(x.Identity, kind, original) {
		return snap, r, from, nil
	}
	leave, err := from.slots.Await(x.Identity.Key())
	if err != nil {
		return snap, r, from, err
	}
	defer leave()
	if err := from.mount.Await(ctx, x.Identity, kind, original); err != nil {
		return snap, r, from, err
	}
	if r == nil {
		g.know(ctx, from.backend)
		snap = g.snapshot.Load()
		r = snap.Catalog(x).resolve(kind, name, x.Scope)
	}
	return snap, r, from, nil
}

// know waits until what a backend lists is in the catalog.
func (g *Gateway) know(ctx context.Context, b Backend) {
	ctx, cancel := context.WithTimeout(ctx, listedTime)
	defer cancel()
	for {
		listing, _ := b.Listing()
		if s := g.snapshot.Load().catalog.byServer[b.Name()].base(); s == nil || s.listing == listing {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gather / 2):
		}
	}
}

// claims returns the server in scope whose a name would be, nil for none.
func (c *Catalog) claims(kind mcp.Capability, name string, scope Scope) *served {
	prefix, ok := names.Namespace(kind, name)
	s := c.byPrefix[""]
	if ok && c.byPrefix[prefix] != nil {
		s = c.byPrefix[prefix]
	}
	if s == nil || !scope.has(s.backend.Name()) {
		return nil
	}
	return s
}

// unlisted answers a call of what its backend lists to nobody, or not to this caller,
// because somebody has to sign in first: as such a call of something that is listed
// (see [Gateway.unserved]), if the caller may view the tool by which one signs in. To
// everybody else it is a name that does not exist. So it answers, of what is listed
// too, where there is no place to wait.
func (g *Gateway) unlisted(ctx context.Context, x *Exchange, rec *record, kind mcp.Capability, name string, listed *Route, from *served, why error) reply {
	refuse := func(err error) reply { return g.refuse(x, rec.refused(err)) }
	if ctx.Err() != nil {
		return refuse(why)
	}
	if busy, is := errors.AsType[*refusal.Error](why); is {
		return refuse(g.crowded(ctx, x, kind, name, listed, from, busy))
	}
	stands := from.signsIn()
	if stands == nil || stands.to != from {
		return refuse(g.unknownTo(x, kind, name))
	}
	if _, err := g.permitOr(ctx, x, stands, nil, nil, func(gate.Decision) error { return g.unknownTo(x, kind, name) }); err != nil {
		return refuse(err)
	}
	r := &Route{Kind: kind, Server: stands.Server, Exposed: name, to: from}
	rec.routed(r)
	call := g.newCall(x, from, x.Message.Method, x.Message.Params())
	again, err := g.rounds.recognise(x, r, rec, call)
	if err != nil {
		return refuse(err)
	}
	if err := g.pace(ctx, x, r, rec, again); err != nil {
		return refuse(err)
	}
	if err := g.rounds.admit(ctx, again, rec); err != nil {
		return refuse(err)
	}
	return g.unserved(x, r, rec, call, again, why)
}

// crowded answers a call for which there is no place to wait: with that if the caller
// may view what is called, or the tool by which one signs in where it is not listed.
// To everybody else it is a name that does not exist.
func (g *Gateway) crowded(ctx context.Context, x *Exchange, kind mcp.Capability, name string, r *Route, from *served, why error) error {
	if r == nil {
		r = from.signsIn()
	}
	hidden := func(gate.Decision) error { return g.unknownTo(x, kind, name) }
	if r == nil || r.to != from {
		return hidden(gate.Decision{})
	}
	if _, err := g.permitOr(ctx, x, r, r.argumentsOf(x), nil, hidden); err != nil {
		return err
	}
	return why
}

// standsIn tells whether a definition is that of the tool by which one signs in, and
// no tool of the server's own that has its name.
func (s *served) standsIn(raw []byte) bool {
	return s.mount.SignInTool != nil && bytes.Equal(raw, s.mount.SignInTool)
}

// signsIn returns the route of the tool by which one signs in to the server, nil
// where there is none.
func (s *served) signsIn() *Route {
	for _, r := range s.rendered[mcp.Tool] {
		if s.standsIn(r.item) {
			return r
		}
	}
	return nil
}

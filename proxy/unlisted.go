package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/names"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// Await waits until the caller's lists of a backend are known, as long as that takes.
// It does not wait for an item that is listed to the caller already; original is empty
// for a name that is listed to nobody. The error tells why nothing is known: a
// [mcp.Failure], or the cause of an ended context.
type Await func(ctx context.Context, id *gate.Identity, kind mcp.Kind, original string) error

// listedTimeout is how long a call waits until the catalog holds its backend's lists.
const listedTimeout = 5 * time.Second

// findListed looks up what is called, or refuses an unknown name. Where callers sign in
// to the backend of the name, it waits for the caller's lists. A client that calls
// without having listed starts its server that way, and a client that has just signed
// in is not refused because its list is still on the way. If the lists stay unknown,
// the call continues under another plan.
//
// It comes before the gate, which cannot decide on unlisted names, and before the
// concurrency limit. So waiting calls have a limit of their own (see
// [limit.Concurrency.Await]). Callers learn nothing from it except that there is a
// wait.
func findListed(c *call) error {
	catalog := c.snap.Catalog(c.x)
	r := catalog.resolve(c.kind, c.name, c.x.Scope)
	from := catalog.serverFor(c.kind, c.name, c.x.Scope)
	if r != nil {
		from = r.to
	}
	r, err := c.await(r, from)
	switch {
	case err != nil:
		return c.unlisted(r, from, err)
	case r == nil:
		return c.unknownName(gate.Decision{})
	}
	// Before anything reads the arguments.
	c.x = c.x.translated(r.in(c.snap.schemasIn(c.x.Scope)), c.g.front.parseLimits())
	c.rec.x = c.x
	c.setRoute(r)
	c.rec.note(r)
	return nil
}

// await waits for the caller's lists of a server where they are unknown, and returns
// the route of the call then. The error tells why nothing is listed to the caller.
func (c *call) await(r *Route, from *backendEntry) (*Route, error) {
	if from == nil || from.mount.Await == nil {
		return r, nil
	}
	original := ""
	if r != nil {
		if original = r.Original; from.mount.Listed != nil && from.mount.Listed(c.x.Identity, c.kind, original) {
			return r, nil
		}
	}
	leave, err := from.permits.Await(c.x.Identity.Key())
	if err != nil {
		return r, err
	}
	defer leave()
	if err := from.mount.Await(c.ctx, c.x.Identity, c.kind, original); err != nil {
		return r, err
	}
	if r == nil {
		c.g.publisher.waitForListing(c.ctx, from.backend)
		c.snap = c.g.snapshot.Load() // with what was listed meanwhile
		r = c.snap.Catalog(c.x).resolve(c.kind, c.name, c.x.Scope)
	}
	return r, nil
}

// waitForListing waits until the catalog holds a backend's lists.
func (pb *publisher) waitForListing(ctx context.Context, b Backend) {
	ctx, cancel := context.WithTimeout(ctx, listedTimeout)
	defer cancel()
	for {
		listing, _ := b.Listing()
		if s := pb.g.snapshot.Load().catalog.byServer[b.Name()].base(); s == nil || s.listing == listing {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rebuildDelay / 2):
		}
	}
}

// serverFor returns the server in scope to which a name would belong, nil for none.
func (c *Catalog) serverFor(kind mcp.Kind, name string, scope Scope) *backendEntry {
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

// unlisted continues a call whose tool is not listed to this caller, because somebody
// must sign in first. If the caller may view the sign-in tool, the call is answered as
// if its tool were listed (see [call.signInOrRefuse]). For all others the name does not
// exist. The same holds where there is no room to wait, for listed tools too.
func (c *call) unlisted(listed *Route, from *backendEntry, why error) error {
	if c.ctx.Err() != nil {
		return why
	}
	c.why, c.plan = why, &planUnlisted
	asked := from.signInRoute()
	if busy, is := errors.AsType[*refusal.Error](why); is {
		if c.why, c.plan = busy, &planOverloaded; listed != nil {
			asked = listed
		}
	}
	if asked == nil || asked.to != from {
		return c.unknownName(gate.Decision{})
	}
	c.route = asked // not recorded in the entry of a refused call
	return nil
}

// prepareUnlisted makes a request for the exposed name of a call.
func prepareUnlisted(c *call) error {
	c.setRoute(&Route{Capability: &gate.Capability{Kind: c.kind, Server: c.route.Server, Exposed: c.name}, to: c.route.to})
	c.request = c.g.newCall(c.x, c.route.to, c.x.Message.Method, c.x.Message.Params())
	return nil
}

// signInFirst answers a call whose tool is listed only after a sign-in.
func signInFirst(c *call) (response, error) { return c.signInOrRefuse(c.why) }

// refuseOverloaded answers a call for which there is no room to wait.
func refuseOverloaded(c *call) (response, error) { return response{}, c.why }

// isSignInTool reports whether a definition is the gateway's sign-in tool, and not a
// tool of the server with the same name.
func (s *backendEntry) isSignInTool(raw []byte) bool {
	return s.mount.SignInTool != nil && bytes.Equal(raw, s.mount.SignInTool)
}

// signInRoute returns the route of the server's sign-in tool, nil where there is none.
func (s *backendEntry) signInRoute() *Route {
	for _, r := range s.rendered[mcp.Tool] {
		if s.isSignInTool(r.item) {
			return r
		}
	}
	return nil
}

// listedTo reports whether a server has listed a tool to a caller.
func (s *backendEntry) listedTo(x *Exchange) bool {
	return s.mount.Listed == nil || slices.ContainsFunc(s.rendered[mcp.Tool], func(r *Route) bool {
		return !s.isSignInTool(r.item) && s.mount.Listed(x.Identity, mcp.Tool, r.Original)
	})
}

// SignIn returns the address where a caller can sign in to a server whose credential is
// missing. It is empty where there is none for this caller. why is the failure of a call;
// nil before any call.
type SignIn func(id *gate.Identity, why error) string

// SignInInput is the key of the gateway's own question in an input request.
const SignInInput = "sign_in"

// signInOrRefuse answers a call that failed. Where a credential is missing and the
// caller can sign in, it sends the caller there in the way of its client (2026-07-28
// client/elicitation and basic/patterns/mrtr; 2025-11-25 client/elicitation, URL
// Elicitation Required Error). Otherwise it refuses. Nothing from the server is in the
// response. The call was not delivered, so its next round is charged like a first one.
func (c *call) signInOrRefuse(err error) (response, error) {
	x, r := c.x, c.route
	failure, failed := errors.AsType[*mcp.Failure](err)
	if !failed || failure.Kind != mcp.FailLogin || r.to.mount.SignIn == nil || c.request.Method == mcp.MethodComplete {
		return response{}, err
	}
	address := r.to.mount.SignIn(x.Identity, err)
	if address == "" {
		return response{}, err
	}
	message := fmt.Sprintf("Sign in to %s, which toolgate needs to make this call for you.", r.Server)
	params := append([]byte(`{"mode":"url","message":`), mcp.Quote(message)...)
	params = append(append(append(params, `,"url":`...), mcp.Quote(address)...), '}')
	asked := c.retry != nil && c.retry.state.signsIn()
	switch {
	case !x.declares(mcp.MethodElicit, params) || asked && declinedSignIn(c.retry.responses):
	case x.Era == mcp.Modern:
		result := []byte(`{"resultType":"` + mcp.ResultInputRequired + `","inputRequests":{"` + SignInInput + `":{"method":"` + mcp.MethodElicit + `","params":`)
		sealed, err := c.g.rounds.seal(c, append(append(result, params...), "}}}"...), resumeSignIn)
		if err != nil {
			return response{}, err
		}
		return response{result: c.g.modernResult(sealed, true, false)}, nil
	default:
		fault := mcp.Errorf(mcp.CodeURLElicitation, "%s", message)
		params = mcp.SetMember(params, "elicitationId", mcp.Quote(rand.Text()))
		fault.Data = append(append([]byte(`{"elicitations":[`), params...), "]}"...)
		return response{}, fault
	}
	return response{}, refusal.SignIn(r.Server, address, err)
}

// declinedSignIn reports whether the user has declined to sign in.
func declinedSignIn(responses []byte) bool {
	action, _ := mcp.LookupString(responses, SignInInput, "action")
	return action == "decline" || action == "cancel"
}

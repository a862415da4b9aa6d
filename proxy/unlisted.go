package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
type Await func(ctx context.Context, id *gate.Identity, kind mcp.Kind, original string) error

// listedTimeout is how long a call waits until what its backend lists is in the catalog.
const listedTimeout = 5 * time.Second

// findListed notes what a call is of, or refuses what there is not. Where callers sign
// in to the backend that the name is of, it waits for what the caller is about to be
// listed: whoever calls without having listed starts their server by that, and whoever
// has just signed in is not told that there is no such tool because the list is still
// on its way. A call of which nothing becomes known goes on under another plan.
//
// It comes before the gate, which can say nothing of what is not listed, and before
// the places of the calls that run, so it has places of its own (see [limit.Concurrency.Await]).
// What a caller learns by it is no more than that there is a wait.
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
	c.setRoute(r)
	c.rec.note(r)
	return nil
}

// await waits for what a server lists to the caller, where that is not known, and
// returns what the call is of then. The error is why nothing is listed to the caller.
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
	leave, err := from.slots.Await(c.x.Identity.Key())
	if err != nil {
		return r, err
	}
	defer leave()
	if err := from.mount.Await(c.ctx, c.x.Identity, c.kind, original); err != nil {
		return r, err
	}
	if r == nil {
		c.g.publisher.waitForListing(c.ctx, from.backend)
		c.snap = c.g.snapshot.Load() // with what is listed since
		r = c.snap.Catalog(c.x).resolve(c.kind, c.name, c.x.Scope)
	}
	return r, nil
}

// waitForListing waits until what a backend lists is in the catalog.
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

// serverFor returns the server in scope whose a name would be, nil for none.
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

// unlisted goes on with a call of what its backend lists to nobody, or not to this
// caller, because somebody has to sign in first. It is answered as such a call of
// something that is listed (see [call.signInOrRefuse]), if the caller may view the tool by
// which one signs in. To everybody else it is a name that does not exist. So it is, of
// what is listed too, where there is no place to wait.
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
	c.route = asked // which is no news for the entry of a call that is refused
	return nil
}

// prepareUnlisted makes the call of what is not listed known by its exposed name.
func prepareUnlisted(c *call) error {
	c.setRoute(&Route{Kind: c.kind, Server: c.route.Server, Exposed: c.name, to: c.route.to})
	c.request = c.g.newCall(c.x, c.route.to, c.x.Message.Method, c.x.Message.Params())
	return nil
}

// signInFirst answers a call of what is listed after a sign-in.
func signInFirst(c *call) (response, error) { return c.signInOrRefuse(c.why) }

// refuseOverloaded answers a call for which there is no place to wait.
func refuseOverloaded(c *call) (response, error) { return response{}, c.why }

// isSignInTool tells whether a definition is that of the tool by which one signs in, and
// no tool of the server's own that has its name.
func (s *backendEntry) isSignInTool(raw []byte) bool {
	return s.mount.SignInTool != nil && bytes.Equal(raw, s.mount.SignInTool)
}

// signInRoute returns the route of the tool by which one signs in to the server, nil
// where there is none.
func (s *backendEntry) signInRoute() *Route {
	for _, r := range s.rendered[mcp.Tool] {
		if s.isSignInTool(r.item) {
			return r
		}
	}
	return nil
}

// SignIn returns the address at which a caller signs in to a server whose
// credential is missing, empty where there is none for this caller. why is the
// failure of the call.
type SignIn func(id *gate.Identity, why error) string

// signInInput is the key of the gateway's own question in an input request.
const signInInput = "sign_in"

// signInOrRefuse answers a call that its backend did not: where a credential is missing
// and the caller can sign in, by sending them there in the way that their client
// knows (2026-07-28 client/elicitation and basic/patterns/mrtr; 2025-11-25
// client/elicitation, URL Elicitation Required Error), else by a refusal. Nothing of
// what the server said is in it. The call was not delivered, so that its next round
// is charged as the first.
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
		result := []byte(`{"resultType":"` + mcp.ResultInputRequired + `","inputRequests":{"` + signInInput + `":{"method":"` + mcp.MethodElicit + `","params":`)
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

// declinedSignIn tells whether a person was asked to sign in and does not want to.
func declinedSignIn(responses []byte) bool {
	action, _ := mcp.LookupString(responses, signInInput, "action")
	return action == "decline" || action == "cancel"
}

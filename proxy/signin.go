package proxy

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// SignIn returns the address at which a caller signs in to a server whose
// credential is missing, empty where there is none for this caller. why is the
// failure of the call.
type SignIn func(id *gate.Identity, why error) string

// signInInput is the key of the gateway's own question in an input request.
const signInInput = "sign_in"

// unserved answers a call that its backend did not: where a credential is missing
// and the caller can sign in, by sending them there in the way that their client
// knows (2026-07-28 client/elicitation and basic/patterns/mrtr; 2025-11-25
// client/elicitation, URL Elicitation Required Error), else by a refusal. Nothing of
// what the server said is in it. The call was not delivered, so that its next round
// is charged as the first.
func (c *call) unserved(err error) (reply, error) {
	x, r := c.x, c.route
	failure, failed := errors.AsType[*mcp.Failure](err)
	if !failed || failure.Kind != mcp.FailLogin || r.to.mount.SignIn == nil || c.request.Method == mcp.MethodComplete {
		return reply{}, err
	}
	address := r.to.mount.SignIn(x.Identity, err)
	if address == "" {
		return reply{}, err
	}
	message := fmt.Sprintf("Sign in to %s, which toolgate needs to make this call for you.", r.Server)
	params := append([]byte(`{"mode":"url","message":`), mcp.Quote(message)...)
	params = append(append(append(params, `,"url":`...), mcp.Quote(address)...), '}')
	asked := c.retry != nil && c.retry.state.signsIn()
	switch {
	case !x.declares(mcp.MethodElicit, params) || asked && unwilling(c.retry.responses):
	case x.Era == mcp.Modern:
		result := []byte(`{"resultType":"` + mcp.ResultInputRequired + `","inputRequests":{"` + signInInput + `":{"method":"` + mcp.MethodElicit + `","params":`)
		sealed, err := c.g.rounds.seal(c, append(append(result, params...), "}}}"...), waySignIn)
		if err != nil {
			return reply{}, err
		}
		return reply{result: c.g.modernResult(sealed, true, false)}, nil
	default:
		fault := mcp.Errorf(mcp.CodeURLElicitation, "%s", message)
		params = mcp.SetMember(params, "elicitationId", mcp.Quote(rand.Text()))
		fault.Data = append(append([]byte(`{"elicitations":[`), params...), "]}"...)
		return reply{}, fault
	}
	return reply{}, refusal.SignIn(r.Server, address, err)
}

// unwilling tells whether a person was asked to sign in and does not want to.
func unwilling(responses []byte) bool {
	action, _ := mcp.LookupString(responses, signInInput, "action")
	return action == "decline" || action == "cancel"
}

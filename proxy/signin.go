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
func (g *Gateway) unserved(x *Exchange, r *Route, rec *record, call *mcp.Call, again *retry, err error) reply {
	failure, failed := errors.AsType[*mcp.Failure](err)
	if !failed || failure.Kind != mcp.FailLogin || r.to.mount.SignIn == nil || call.Method == mcp.MethodComplete {
		return g.refuse(x, rec.refused(err))
	}
	address := r.to.mount.SignIn(x.Identity, err)
	if address == "" {
		return g.refuse(x, rec.refused(err))
	}
	message := fmt.Sprintf("Sign in to %s, which toolgate needs to make this call for you.", r.Server)
	params := append([]byte(`{"mode":"url","message":`), mcp.Quote(message)...)
	params = append(append(append(params, `,"url":`...), mcp.Quote(address)...), '}')
	asked := again != nil && again.state.signsIn()
	switch {
	case !x.declares(mcp.MethodElicit, params) || asked && unwilling(again.responses):
	case x.Era == mcp.Modern:
		result := []byte(`{"resultType":"` + mcp.ResultInputRequired + `","inputRequests":{"` + signInInput + `":{"method":"` + mcp.MethodElicit + `","params":`)
		sealed, err := g.rounds.seal(x, r, rec, call, append(append(result, params...), "}}}"...), waySignIn)
		if err != nil {
			return g.refuse(x, rec.refused(err))
		}
		return reply{result: g.modernResult(sealed, true, false)}
	default:
		fault := mcp.Errorf(mcp.CodeURLElicitation, "%s", message)
		params = mcp.SetMember(params, "elicitationId", mcp.Quote(rand.Text()))
		fault.Data = append(append([]byte(`{"elicitations":[`), params...), "]}"...)
		return g.refuse(x, rec.refused(fault))
	}
	return g.refuse(x, rec.refused(refusal.SignIn(r.Server, address, err)))
}

// unwilling tells whether a person was asked to sign in and does not want to.
func unwilling(responses []byte) bool {
	action, _ := mcp.LookupString(responses, signInInput, "action")
	return action == "decline" || action == "cancel"
}

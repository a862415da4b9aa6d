package proxy

import (
	"context"

	"github.com/toolgate/toolgate/internal/mcp"
)

// ask relays a question of a server to the client whose call caused it. A
// question that the client did not declare, or the operator does not allow, is
// declined without asking anybody.
//
// A legacy client is asked by a request on the stream of its call. A modern
// client cannot be asked while its call runs; its question would have to park
// the call, and until then it is declined like one that was not declared.
func (g *Gateway) ask(ctx context.Context, x *Exchange, from *served, method string, params []byte) ([]byte, *mcp.Error) {
	if !from.mount.Questions.allow(method) || x.Era != mcp.Legacy || x.Session == nil || !x.declares(method, params) {
		return decline(method)
	}
	params = mcp.RewriteMeta(exposeURIs(from.mount.Namespace, method, params), nil)
	if len(params) == 0 {
		params = nil
	}
	msg, err := x.Session.question(ctx, x.way, method, params)
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInternal, "the client did not answer")
	}
	if fault := msg.Fault(); fault != nil {
		return nil, mcp.ParseError(fault)
	}
	return mcp.RewriteMeta(msg.Result(), nil), nil
}

// decline is the answer that each question has for a user who does not want
// to answer it.
func decline(method string) ([]byte, *mcp.Error) {
	switch method {
	case mcp.MethodElicit:
		return []byte(`{"action":"decline"}`), nil
	case mcp.MethodSampling:
		return nil, &mcp.Error{Code: -1, Message: "User rejected sampling request"} // 2025-11-25 client/sampling, Error Handling
	default:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: the client does not offer %s", method)
	}
}

package servers

import (
	"context"
	"fmt"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/proto"
	"github.com/toolgate/toolgate/proxy"
)

// Request sends a request of the gateway itself to a server, on the gateway's own
// connection, and returns its result. A JSON-RPC error is an error.
func (t *Table) Request(ctx context.Context, server, method string, params []byte) (result []byte, err error) {
	s := t.now.Load().servers[server]
	if s == nil || s.upstream == nil {
		return nil, fmt.Errorf("no server %s runs", server)
	}
	return Request(ctx, s.backend, server, method, params)
}

// Request sends a request of toolgate itself to a server, and returns its result. A JSON-RPC
// error is an error.
func Request(ctx context.Context, to proxy.Backend, server, method string, params []byte) (result []byte, err error) {
	answer, err := to.Call(ctx, &mcp.Call{Method: method, Params: params})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s to the server %s: %w", method, server, err)
	case answer.Fault != nil:
		return nil, fmt.Errorf("%s to the server %s: %w", method, server, answer.Fault)
	}
	return answer.Result, nil
}

// Intercept asks a plugin about a call.
func (t *Table) Intercept(ctx context.Context, plugin string, in *proto.InterceptRequest) (*proto.InterceptResponse, error) {
	s := t.nativeOf(plugin)
	if s == nil {
		return nil, fmt.Errorf("no plugin %s runs", plugin)
	}
	p, ok := s.native.(*native.Plugin)
	if !ok {
		return nil, fmt.Errorf("%s looks at no calls", plugin)
	}
	return p.Intercept(ctx, in)
}

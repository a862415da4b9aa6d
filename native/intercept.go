package native

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolgate/toolgate/native/proto"
)

// Intercept asks the plugin about a call. An error means that it has not decided: it does
// not run, looks at no calls, or has failed.
func (p *Plugin) Intercept(ctx context.Context, in *proto.InterceptRequest) (*proto.InterceptResponse, error) {
	p.calls.Add(1)
	defer p.calls.Add(-1)
	running, err := p.serving(ctx)
	if err != nil {
		return nil, err
	}
	out, err := proto.NewInterceptorPluginClient(running.conn).Intercept(ctx, in)
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case status.Code(err) == codes.Unimplemented:
		return nil, errors.New("the plugin " + p.spec.Key + " looks at no calls")
	}
	return nil, fmt.Errorf("the plugin %s failed: %s", p.spec.Key, printable([]byte(status.Convert(err).Message())))
}

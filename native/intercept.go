package native

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/toolgate/toolgate/native/frames"
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
	out, err := running.intercept(ctx, in)
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

// intercept asks in a frame where the plugin offers that and the question fits into one,
// and over gRPC otherwise.
func (r *process) intercept(ctx context.Context, in *proto.InterceptRequest) (*proto.InterceptResponse, error) {
	conn := r.frames.now()
	if conn == nil || protobuf.Size(in) > frames.MaxBody {
		return proto.NewInterceptorPluginClient(r.conn).Intercept(ctx, in)
	}
	body, err := protobuf.Marshal(in)
	if err != nil {
		return nil, err
	}
	if body, err = conn.Ask(ctx, body); err != nil {
		return nil, err
	}
	out := new(proto.InterceptResponse)
	return out, protobuf.Unmarshal(body, out)
}

// framesKey returns a new key for frames; nil for a shipped plugin, which looks at no calls.
func (p *Plugin) framesKey() []byte {
	if p.spec.Shipped {
		return nil
	}
	key := make([]byte, frames.KeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

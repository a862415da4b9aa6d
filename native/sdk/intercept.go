package sdk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/toolgate/toolgate/native/frames"
	"github.com/toolgate/toolgate/native/proto"
)

// Invocation is one call that an interceptor looks at.
type Invocation struct {
	Interceptor string // its name in the configuration
	Phase       Phase
	CallID      string // in the audit log; empty in a list
	Method      string // of MCP, such as tools/call
	Principal   string // who calls
	Tenant      string
	Capsule     string // of the endpoint; empty on the main one
	Server      string // key in the configuration
	Name        string // that the client knows
	// Payload is a JSON object: the arguments before a call, the result after it, and in a
	// list the definition.
	Payload []byte
}

// Phase is when an interceptor is asked.
type Phase string

// The phases.
const (
	Before Phase = "before" // the call is delivered next
	After  Phase = "after"  // the client gets the result next
	List   Phase = "list"   // the definition is listed next
)

// Decision is what an interceptor says of a call. The zero Decision denies.
type Decision int

// The decisions.
const (
	Deny  Decision = iota
	Ask            // a person has to approve; only before a call
	Allow          // it goes on; the gate has allowed it already
)

// Verdict is the answer of an interceptor. The zero Verdict denies.
type Verdict struct {
	Decision Decision
	Reason   string // why, in a few words, for the client and the audit log
	// Payload is another object in place of that of the invocation; nil leaves it.
	Payload []byte
	Note    string // for the client, with a result
}

// Intercept has the plugin look at calls, for the entries of interceptors in the
// configuration that name it. The function is called from many goroutines at once, and
// returns when its context ends. An error means that nothing was decided.
func (p *Plugin) Intercept(look func(ctx context.Context, inv *Invocation) (Verdict, error)) {
	p.look = look
}

// interceptor serves the function of a plugin.
type interceptor struct {
	proto.UnimplementedInterceptorPluginServer

	of *server
}

// Intercept implements proto.InterceptorPluginServer.
func (i *interceptor) Intercept(ctx context.Context, in *proto.InterceptRequest) (_ *proto.InterceptResponse, err error) {
	defer i.of.recovered("Intercept", &err)
	v, err := i.of.plugin.look(ctx, &Invocation{
		Interceptor: in.GetInterceptor(), Phase: Phase(in.GetPhase()), CallID: in.GetCallId(), Method: in.GetMethod(),
		Principal: in.GetPrincipal(), Tenant: in.GetTenant(), Capsule: in.GetCapsule(), Server: in.GetServer(), Name: in.GetName(),
		Payload: in.GetPayloadJson(),
	})
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &proto.InterceptResponse{
		Decision: proto.Decision(v.Decision), Reason: v.Reason, PayloadJson: v.Payload, Note: v.Note, //nolint:gosec // a wrong one is refused
	}, nil
}

// serveFrames serves the function on a socket in a folder as well, and returns the path of
// the socket; empty if that is not possible.
func (s *server) serveFrames(folder string, key []byte) string {
	path := filepath.Join(folder, "frames")
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		s.log.Warn("questions come over gRPC alone", "error", err.Error())
		return ""
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = frames.Serve(l, key, s.looks.frame) }) // ends when it is closed
	s.asked = func() {
		l.Close()
		serving.Wait()
	}
	return path
}

// frame answers a question that came in a frame.
func (i *interceptor) frame(ctx context.Context, body []byte) ([]byte, error) {
	in := &proto.InterceptRequest{}
	if err := protobuf.Unmarshal(body, in); err != nil {
		return nil, fmt.Errorf("the question cannot be read: %w", err)
	}
	out, err := i.Intercept(ctx, in)
	if err != nil {
		return nil, errors.New(status.Convert(err).Message())
	}
	return protobuf.Marshal(out)
}

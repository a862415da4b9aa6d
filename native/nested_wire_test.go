//go:build !windows

package native

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/proto"
	"github.com/toolgate/toolgate/native/sdk"
)

// connected returns a plugin that is served here and now, over gRPC as go-plugin has it and
// with the limits that gRPC has by itself.
func connected(t *testing.T, register func(grpc.ServiceRegistrar)) (*Plugin, *process) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	register(s)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Stop()
		serving.Wait()
	})
	h, err := NewHost(Options{Folder: t.TempDir() + "/s", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p := h.Plugin(Spec{Key: "play"})
	running := &process{conn: conn, tools: proto.NewToolPluginClient(conn)}
	hello, err := running.tools.Init(t.Context(), &proto.InitRequest{ConfigJson: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	if running.catalog, err = listTools(t.Context(), running.tools, "play", hello, h.opts.Logger); err != nil {
		t.Fatal(err)
	}
	p.set(mcp.Ready, "", running)
	return p, running
}

// connectedTool is a plugin of one tool, "do".
func connectedTool(t *testing.T, do func(context.Context, *sdk.Call) (string, error)) (*Plugin, *process) {
	t.Helper()
	made := sdk.New("play", "1")
	sdk.Add(made, sdk.Tool{Name: "do"}, func(ctx context.Context, call *sdk.Call, _ struct{}) (string, error) { return do(ctx, call) })
	return connected(t, func(to grpc.ServiceRegistrar) {
		if err := made.Register(to, hclog.NewNullLogger()); err != nil {
			t.Fatal(err)
		}
	})
}

// lingering is a plugin whose answers arrive at once, and are acknowledged once a further
// call has been made.
type lingering struct {
	proto.ToolPluginClient

	made chan struct{} // closed by the call after the first 64
}

func (l lingering) Answer(ctx context.Context, in *proto.AnswerRequest, opts ...grpc.CallOption) (*proto.AnswerResponse, error) {
	out, err := l.ToolPluginClient.Answer(ctx, in, opts...)
	select {
	case <-l.made:
	case <-ctx.Done():
	}
	return out, err
}

// TestNestedAgain: a tool that has got an answer may make the next call, whatever becomes of
// the acknowledgement.
func TestNestedAgain(t *testing.T) {
	p, running := connectedTool(t, func(ctx context.Context, call *sdk.Call) (string, error) {
		errs := make([]error, maxNested)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				for range 3 {
					_, err := call.CallTool(ctx, "s__t", struct{}{})
					errs[i] = errors.Join(errs[i], err)
				}
			})
		}
		all.Wait()
		return "done", errors.Join(errs...)
	})
	made := make(chan struct{})
	running.tools = lingering{running.tools, made}
	var n atomic.Int64
	first := make(chan struct{})
	call := callOf("do", "{}")
	call.Nested = nester(func(ctx context.Context, _ mcp.NestedCall) mcp.NestedAnswer {
		switch n.Add(1) {
		case maxNested:
			close(first)
		case maxNested + 1:
			close(made)
		}
		select {
		case <-first:
		case <-ctx.Done():
		}
		return textResult("x")
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if got, err := p.Call(ctx, call); err != nil || !strings.Contains(string(got.Result), "done") || n.Load() != 3*maxNested {
		t.Errorf("%d calls: %+v, %v", n.Load(), got, err)
	}
}

// TestNestedCancel: a nested call ends when the tool no longer waits for it, and the tool
// goes on.
func TestNestedCancel(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	p, _ := connectedTool(t, func(ctx context.Context, call *sdk.Call) (string, error) {
		why := errors.New("enough")
		own, cancel := context.WithCancelCause(ctx)
		go func() {
			<-begun
			cancel(why)
		}()
		if _, err := call.CallTool(own, "s__wait", struct{}{}); !errors.Is(err, why) {
			return "", err
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		got, err := call.CallTool(ctx, "s__next", struct{}{})
		return got.Text, err
	})
	call := callOf("do", "{}")
	call.Nested = nester(func(ctx context.Context, in mcp.NestedCall) mcp.NestedAnswer {
		if in.Tool == "s__wait" {
			close(begun)
			<-ctx.Done()
			close(ended)
		}
		return textResult(in.Tool)
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if got, err := p.Call(ctx, call); err != nil || !strings.Contains(string(got.Result), "s__next") {
		t.Errorf("%s, %v", got.Result, err)
	}
}

// raw is a plugin in another language, with one tool.
type raw struct {
	proto.UnimplementedToolPluginServer

	calls   []*proto.CallEvent // that the tool sends at once
	answers chan *proto.AnswerRequest
	n       int // how many of them the tool waits for
}

func (*raw) Init(context.Context, *proto.InitRequest) (*proto.InitResponse, error) {
	return &proto.InitResponse{}, nil
}

func (*raw) ListTools(context.Context, *proto.ListToolsRequest) (*proto.ListToolsResponse, error) {
	return &proto.ListToolsResponse{Tools: []*proto.Tool{{Name: "do", InputSchemaJson: []byte(`{"type":"object"}`)}}}, nil
}

func (r *raw) Call(_ *proto.CallRequest, stream grpc.ServerStreamingServer[proto.CallEvent]) error {
	for _, e := range r.calls {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	var said []string
	for range r.n {
		select {
		case a := <-r.answers:
			said = append(said, string(a.GetResultJson())+a.GetRefused())
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
	slices.Sort(said)
	return stream.Send(&proto.CallEvent{Event: &proto.CallEvent_Result{Result: &proto.Result{Text: strings.Join(slices.Compact(said), "|")}}})
}

func (r *raw) Answer(_ context.Context, in *proto.AnswerRequest) (*proto.AnswerResponse, error) {
	r.answers <- in // it has room
	return &proto.AnswerResponse{}, nil
}

func nestedCall(id int64, args string) *proto.CallEvent {
	return &proto.CallEvent{Event: &proto.CallEvent_Nested{Nested: &proto.NestedCall{Id: id, Tool: "s__t", ArgumentsJson: []byte(args)}}}
}

func nestedCancel(id int64) *proto.CallEvent {
	return &proto.CallEvent{Event: &proto.CallEvent_NestedCancel{NestedCancel: &proto.NestedCancel{Id: id}}}
}

// TestNestedAnswers: whatever a plugin asks for, it gets an answer.
func TestNestedAnswers(t *testing.T) {
	waits := func(ctx context.Context, _ mcp.NestedCall) mcp.NestedAnswer {
		<-ctx.Done()
		return textResult("canceled")
	}
	says := func(_ context.Context, c mcp.NestedCall) mcp.NestedAnswer {
		return mcp.NestedAnswer{Result: append(append([]byte(`[`), c.Args...), ']')}
	}
	var many []*proto.CallEvent
	for i := range int64(maxNested + 100) {
		many = append(many, nestedCall(i, `{}`))
	}
	for name, tt := range map[string]struct {
		calls []*proto.CallEvent
		n     int
		by    nester
		want  string
	}{
		"too many":            {many, 100, waits, "The tool has 64 calls of others under way, which is the most at once."},
		"the same id":         {[]*proto.CallEvent{nestedCall(1, ""), nestedCall(1, "")}, 1, waits, "Another call of the tool that is under way has the same id."},
		"canceled":            {[]*proto.CallEvent{nestedCancel(7), nestedCall(1, ""), nestedCancel(1)}, 1, waits, `{"content":[{"type":"text","text":"canceled"}]}`},
		"more than it takes":  {[]*proto.CallEvent{nestedCall(1, "")}, 1, func(context.Context, mcp.NestedCall) mcp.NestedAnswer { return textResult(strings.Repeat("x", 5<<20)) }, "The result is too large or could not be handed over."},
		"space round it":      {[]*proto.CallEvent{nestedCall(1, " {\"a\":1}\n")}, 1, says, `[{"a":1}]`},
		"no arguments":        {[]*proto.CallEvent{nestedCall(1, "")}, 1, says, `[]`},
		"members beside it":   {[]*proto.CallEvent{nestedCall(1, `{},"task":{}`)}, 1, says, "The arguments are not a JSON object."},
		"the same name twice": {[]*proto.CallEvent{nestedCall(1, `{"a":1,"a":2}`)}, 1, says, "The arguments are not a JSON object."},
		"an array":            {[]*proto.CallEvent{nestedCall(1, `[]`)}, 1, says, "The arguments are not a JSON object."},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := connected(t, func(to grpc.ServiceRegistrar) {
				proto.RegisterToolPluginServer(to, &raw{calls: tt.calls, answers: make(chan *proto.AnswerRequest, len(tt.calls)), n: tt.n})
			})
			call := callOf("do", "{}")
			call.Nested = tt.by
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			got, err := p.Call(ctx, call)
			if want := string(mcp.Quote(tt.want)); err != nil || !strings.Contains(string(got.Result), want) {
				t.Errorf("%s, %v; want %s", got.Result, err, want)
			}
		})
	}
}

package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolgate/toolgate/native/frames"
	"github.com/toolgate/toolgate/native/proto"
	"github.com/toolgate/toolgate/native/toolapi"
)

// maxMessage bounds what a call may bring along.
const maxMessage = 64 << 20

// server serves the tools of a plugin.
type server struct {
	proto.UnimplementedToolPluginServer

	plugin *Plugin
	served *toolapi.Server
	log    hclog.Logger
	looks  *interceptor // nil without
	asked  func()       // ends what serves frames; nil without

	running runningCalls
}

// Register adds the tools of a plugin to a gRPC server, for tests and for
// programs that serve more.
func (p *Plugin) Register(to grpc.ServiceRegistrar, log hclog.Logger) error {
	if _, err := p.Tools(); err != nil {
		return err
	}
	s := &server{plugin: p, served: toolapi.NewServer(&p.Plugin), log: log}
	proto.RegisterToolPluginServer(to, s)
	if p.look != nil {
		s.looks = &interceptor{of: s}
		proto.RegisterInterceptorPluginServer(to, s.looks)
	}
	return nil
}

// Init implements proto.ToolPluginServer.
func (s *server) Init(_ context.Context, in *proto.InitRequest) (_ *proto.InitResponse, err error) {
	defer s.recovered("Init", &err)
	if err := s.served.Init(in.GetConfigJson()); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	out := &proto.InitResponse{Name: s.plugin.Name(), Version: s.plugin.Version()}
	if folder := os.Getenv("PLUGIN_UNIX_SOCKET_DIR"); s.looks != nil && folder != "" && len(in.GetFramesKey()) == frames.KeySize {
		out.FramesSocket = s.serveFrames(folder, in.GetFramesKey())
	}
	return out, nil
}

// ListTools implements proto.ToolPluginServer.
func (s *server) ListTools(context.Context, *proto.ListToolsRequest) (*proto.ListToolsResponse, error) {
	out := &proto.ListToolsResponse{}
	tools := s.served.Tools()
	for i := range tools {
		t := &tools[i]
		annotations, err := json.Marshal(map[string]bool{
			"readOnlyHint": t.ReadOnly, "destructiveHint": t.Destructive, "idempotentHint": t.Idempotent, "openWorldHint": t.OpenWorld,
		})
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		out.Tools = append(out.Tools, &proto.Tool{
			Name: t.Name, Title: t.Title, Description: t.Description, InputSchemaJson: t.Input, OutputSchemaJson: t.Output,
			AnnotationsJson: annotations, Category: t.Category, Risk: string(t.Risk), TimeoutMs: t.Timeout.Milliseconds(),
			RatePerHour: int32(min(t.RatePerHour, 1<<31-1)), Queue: t.Queue, // bounded
		})
	}
	return out, nil
}

// Call implements proto.ToolPluginServer.
func (s *server) Call(in *proto.CallRequest, stream grpc.ServerStreamingServer[proto.CallEvent]) (err error) {
	defer s.recovered(in.GetName(), &err)
	var mu sync.Mutex // a stream is for one goroutine at a time
	open := true
	send := func(e *proto.CallEvent) {
		mu.Lock()
		defer mu.Unlock()
		if open {
			_ = stream.Send(e) // its context ends where that fails
		}
	}
	defer func() {
		mu.Lock()
		open = false
		mu.Unlock()
	}()
	call := &toolapi.Call{ID: in.GetCallId(), Arguments: in.GetArgumentsJson()}
	call.Progress = func(done, total float64, message string) {
		send(&proto.CallEvent{Event: &proto.CallEvent_Progress{Progress: &proto.Progress{Done: done, Total: total, Message: message}}})
	}
	call.Log = func(level, message string) {
		data, _ := json.Marshal(message) // a text always is JSON
		send(&proto.CallEvent{Event: &proto.CallEvent_Log{Log: &proto.Log{Level: level, Logger: in.GetName(), DataJson: data}}})
	}
	if in.GetNested() {
		n := &nestedCalls{send: send}
		s.running.add(call.ID, n)
		defer s.running.remove(call.ID)
		call.Nested = n.call
	}
	got, err := s.served.Call(stream.Context(), in.GetName(), call)
	switch {
	case errors.Is(err, toolapi.ErrUnknownTool):
		return status.Errorf(codes.NotFound, "there is no tool %q", in.GetName())
	case err != nil && stream.Context().Err() != nil:
		return status.FromContextError(stream.Context().Err()).Err()
	case err != nil:
		s.log.Error("tool failed", "tool", in.GetName(), "call", call.ID, "error", err.Error())
		return status.Error(codes.Internal, err.Error())
	}
	send(&proto.CallEvent{Event: &proto.CallEvent_Result{Result: &proto.Result{
		IsError: got.IsError, ContentJson: got.Content, Text: got.Text, StructuredJson: got.Structured,
	}}})
	return nil
}

// Shutdown implements proto.ToolPluginServer.
func (s *server) Shutdown(context.Context, *proto.ShutdownRequest) (*proto.ShutdownResponse, error) {
	s.served.Close()
	if s.asked != nil {
		s.asked()
	}
	return &proto.ShutdownResponse{}, nil
}

// recovered makes a panic the error of the one call that it happened in.
func (s *server) recovered(where string, err *error) {
	if r := recover(); r != nil {
		s.log.Error("panic", "in", where, "value", fmt.Sprint(r), "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "%s panicked: %v", where, r)
	}
}

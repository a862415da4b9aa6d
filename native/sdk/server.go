package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolgate/toolgate/native/proto"
	"github.com/toolgate/toolgate/native/toolkit"
)

// maxMessage bounds what a call may bring along.
const maxMessage = 64 << 20

// server serves the tools of a plugin.
type server struct {
	proto.UnimplementedToolPluginServer

	plugin *Plugin
	log    hclog.Logger
	byName map[string]*toolkit.Tool
	once   sync.Once // closes
}

// Register adds the tools of a plugin to a gRPC server, for tests and for
// programs that serve more.
func (p *Plugin) Register(to grpc.ServiceRegistrar, log hclog.Logger) error {
	if p.err != nil {
		return p.err
	}
	s := &server{plugin: p, log: log, byName: make(map[string]*toolkit.Tool, len(p.tools))}
	for i := range p.tools {
		if s.byName[p.tools[i].Name] != nil {
			return fmt.Errorf("two tools have the name %s", p.tools[i].Name)
		}
		s.byName[p.tools[i].Name] = &p.tools[i]
	}
	proto.RegisterToolPluginServer(to, s)
	return nil
}

// Init implements proto.ToolPluginServer.
func (s *server) Init(_ context.Context, in *proto.InitRequest) (_ *proto.InitResponse, err error) {
	defer s.recovered("Init", &err)
	if s.plugin.Init != nil {
		if err := s.plugin.Init(in.GetConfigJson()); err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
	}
	return &proto.InitResponse{Name: s.plugin.name, Version: s.plugin.version}, nil
}

// ListTools implements proto.ToolPluginServer.
func (s *server) ListTools(context.Context, *proto.ListToolsRequest) (*proto.ListToolsResponse, error) {
	out := &proto.ListToolsResponse{}
	for i := range s.plugin.tools {
		t := &s.plugin.tools[i]
		annotations, err := json.Marshal(map[string]bool{
			"readOnlyHint": t.ReadOnly, "destructiveHint": t.Destructive, "idempotentHint": t.Idempotent, "openWorldHint": t.OpenWorld,
		})
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		out.Tools = append(out.Tools, &proto.Tool{
			Name: t.Name, Title: t.Title, Description: t.Description, InputSchemaJson: t.Input, OutputSchemaJson: t.Output,
			AnnotationsJson: annotations, Category: t.Category, Risk: string(t.Risk), TimeoutMs: t.Timeout.Milliseconds(),
			RatePerHour: int32(min(t.RatePerHour, 1<<31-1)), Queue: t.Queue, //nolint:gosec // bounded
		})
	}
	return out, nil
}

// Call implements proto.ToolPluginServer.
func (s *server) Call(in *proto.CallRequest, stream grpc.ServerStreamingServer[proto.CallEvent]) (err error) {
	defer s.recovered(in.GetName(), &err)
	tool := s.byName[in.GetName()]
	if tool == nil {
		return status.Errorf(codes.NotFound, "there is no tool %q", in.GetName())
	}
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
	call := &toolkit.Call{ID: in.GetCallId(), Arguments: in.GetArgumentsJson()}
	call.Progress = func(done, total float64, message string) {
		send(&proto.CallEvent{Event: &proto.CallEvent_Progress{Progress: &proto.Progress{Done: done, Total: total, Message: message}}})
	}
	call.Log = func(level, message string) {
		data, _ := json.Marshal(message) // a text always is JSON
		send(&proto.CallEvent{Event: &proto.CallEvent_Log{Log: &proto.Log{Level: level, Logger: tool.Name, DataJson: data}}})
	}
	got, err := tool.Run(stream.Context(), call)
	problem, told := errors.AsType[toolkit.Problem](err)
	switch {
	case told:
		got = toolkit.Result{Text: string(problem), IsError: true}
	case stream.Context().Err() != nil:
		return status.FromContextError(stream.Context().Err()).Err()
	case err != nil:
		s.log.Error("tool failed", "tool", tool.Name, "call", call.ID, "error", err.Error())
		return status.Error(codes.Internal, err.Error())
	}
	send(&proto.CallEvent{Event: &proto.CallEvent_Result{Result: &proto.Result{
		IsError: got.IsError, ContentJson: got.Content, Text: got.Text, StructuredJson: got.Structured,
	}}})
	return nil
}

// Shutdown implements proto.ToolPluginServer.
func (s *server) Shutdown(context.Context, *proto.ShutdownRequest) (*proto.ShutdownResponse, error) {
	s.once.Do(func() {
		if s.plugin.Close != nil {
			s.plugin.Close()
		}
	})
	return &proto.ShutdownResponse{}, nil
}

// recovered makes a panic the error of the one call that it happened in.
func (s *server) recovered(where string, err *error) {
	if r := recover(); r != nil {
		s.log.Error("panic", "in", where, "value", fmt.Sprint(r), "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "%s panicked: %v", where, r)
	}
}

package entry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"github.com/toolgate/toolgate/native/toolkit"
)

// code is a status of gRPC.
type code int

const (
	codeOK                 code = 0
	codeCanceled           code = 1
	codeInvalidArgument    code = 3
	codeNotFound           code = 5
	codeFailedPrecondition code = 9
	codeUnimplemented      code = 12
	codeInternal           code = 13
)

// The methods that are served.
const (
	pathInit     = "/toolgate.plugin.v1.ToolPlugin/Init"
	pathList     = "/toolgate.plugin.v1.ToolPlugin/ListTools"
	pathCall     = "/toolgate.plugin.v1.ToolPlugin/Call"
	pathShutdown = "/toolgate.plugin.v1.ToolPlugin/Shutdown"
	pathHealth   = "/grpc.health.v1.Health/Check"
	pathEnd      = "/plugin.GRPCController/Shutdown" // go-plugin's own
)

// serving is HealthCheckResponse with the status SERVING.
var serving = []byte{0x08, 0x01}

// service answers the requests of the host.
type service struct {
	plugin toolkit.Plugin
	layers []string

	once   sync.Once // closes
	mu     sync.Mutex
	opened bool
	tools  []toolkit.Tool
	byName map[string]*toolkit.Tool
}

// serves tells whether there is a method of a path.
func (s *service) serves(path string) bool {
	switch path {
	case pathInit, pathList, pathCall, pathShutdown, pathHealth, pathEnd:
		return true
	}
	return false
}

// answer answers one request.
func (s *service) answer(ctx context.Context, path string, request []byte, send func([]byte)) (c code, text string) {
	defer func() {
		if r := recover(); r != nil {
			logError("panic", "in", path, "value", fmt.Sprint(r), "stack", string(debug.Stack()))
			c, text = codeInternal, "a panic"
		}
	}()
	switch path {
	case pathInit:
		config, err := readConfig(request)
		if err != nil {
			return codeInvalidArgument, err.Error()
		}
		if err := s.open(config); err != nil {
			return codeFailedPrecondition, err.Error()
		}
		send(appendHello(nil, s.plugin.Name, s.layers))
	case pathList:
		s.mu.Lock()
		tools := s.tools
		s.mu.Unlock()
		send(appendTools(nil, tools))
	case pathCall:
		return s.call(ctx, request, send)
	case pathHealth:
		service, err := readService(request)
		if err != nil {
			return codeInvalidArgument, err.Error()
		}
		if service != "plugin" && service != "" {
			return codeNotFound, "unknown service"
		}
		send(serving)
	case pathShutdown:
		s.close()
		send(nil)
	case pathEnd:
		s.close()
		os.Exit(0)
	default:
		return codeUnimplemented, "there is no such method"
	}
	return codeOK, ""
}

func (s *service) close() {
	s.once.Do(func() {
		if s.plugin.Close != nil {
			s.plugin.Close()
		}
	})
}

// open makes the tools.
func (s *service) open(config []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened {
		return errors.New("it is initialised once")
	}
	s.opened = true
	tools, err := s.plugin.Open(config)
	if err != nil {
		return err
	}
	byName := make(map[string]*toolkit.Tool, len(tools))
	for i := range tools {
		if byName[tools[i].Name] != nil {
			return fmt.Errorf("two tools have the name %s", tools[i].Name)
		}
		byName[tools[i].Name] = &tools[i]
	}
	s.tools, s.byName = tools, byName
	return nil
}

// call runs a tool.
func (s *service) call(ctx context.Context, request []byte, send func([]byte)) (c code, text string) {
	r, err := readCall(request)
	if err != nil {
		return codeInvalidArgument, err.Error()
	}
	s.mu.Lock()
	tool := s.byName[r.name]
	s.mu.Unlock()
	if tool == nil {
		return codeNotFound, "there is no such tool"
	}
	call := &toolkit.Call{ID: r.id, Arguments: r.arguments}
	call.Progress = func(done, total float64, message string) { send(appendProgress(nil, done, total, message)) }
	call.Log = func(level, message string) {
		data, _ := json.Marshal(message) // a text always is JSON
		send(appendLog(nil, level, tool.Name, data))
	}
	got, err := tool.Run(ctx, call)
	problem, told := errors.AsType[toolkit.Problem](err)
	switch {
	case told:
		got = toolkit.Result{Text: string(problem), IsError: true}
	case ctx.Err() != nil:
		return codeCanceled, "canceled"
	case err != nil:
		return codeInternal, err.Error()
	}
	send(appendResult(nil, &got))
	return codeOK, ""
}

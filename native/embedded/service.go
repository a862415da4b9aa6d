package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/toolgate/toolgate/native/toolapi"
)

// code is a gRPC status code.
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
	name   string
	served *toolapi.Server
	layers []string
}

// serves reports whether a path is that of a method.
func (s *service) serves(path string) bool {
	switch path {
	case pathInit, pathList, pathCall, pathShutdown, pathHealth, pathEnd:
		return true
	}
	return false
}

// answer handles one request. send writes a message of the response.
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
		if err := s.served.Init(config); err != nil {
			return codeFailedPrecondition, err.Error()
		}
		send(appendHello(nil, s.name, s.layers))
	case pathList:
		send(appendTools(nil, s.served.Tools()))
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
		s.served.Close()
		send(nil)
	case pathEnd:
		s.served.Close()
		os.Exit(0)
	default:
		return codeUnimplemented, "there is no such method"
	}
	return codeOK, ""
}

// call runs a tool.
func (s *service) call(ctx context.Context, request []byte, send func([]byte)) (c code, text string) {
	r, err := readCall(request)
	if err != nil {
		return codeInvalidArgument, err.Error()
	}
	call := &toolapi.Call{ID: r.id, Arguments: r.arguments}
	call.Progress = func(done, total float64, message string) { send(appendProgress(nil, done, total, message)) }
	call.Log = func(level, message string) {
		data, _ := json.Marshal(message) // a string can always be written as JSON
		send(appendLog(nil, level, r.name, data))
	}
	got, err := s.served.Call(ctx, r.name, call)
	switch {
	case errors.Is(err, toolapi.ErrUnknownTool):
		return codeNotFound, err.Error()
	case err != nil && ctx.Err() != nil:
		return codeCanceled, "canceled"
	case err != nil:
		return codeInternal, err.Error()
	}
	send(appendResult(nil, &got))
	return codeOK, ""
}

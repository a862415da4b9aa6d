// Package sdktest calls the tools of a plugin in a test of it, over the real
// protocol but without a process.
package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/toolgate/toolgate/native/proto"
	"github.com/toolgate/toolgate/native/sdk"
)

// Client calls a plugin. It is safe for concurrent use.
type Client struct {
	client proto.ToolPluginClient
	looks  proto.InterceptorPluginClient
	tools  map[string]*proto.Tool
}

// Answer is what a tool answered, and what it said before.
type Answer struct {
	IsError    bool
	Text       string
	Structured json.RawMessage
	Content    json.RawMessage
	Progress   []*proto.Progress
	Logs       []*proto.Log
}

// Start serves a plugin with a configuration for as long as a test runs.
func Start(tb testing.TB, p *sdk.Plugin, config string) *Client {
	tb.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	if err := p.Register(server, hclog.NewNullLogger()); err != nil {
		tb.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		tb.Fatal(err)
	}
	c := &Client{client: proto.NewToolPluginClient(conn), looks: proto.NewInterceptorPluginClient(conn), tools: make(map[string]*proto.Tool)}
	tb.Cleanup(func() {
		_, _ = c.client.Shutdown(context.Background(), &proto.ShutdownRequest{})
		conn.Close()
		server.Stop()
		<-served
	})
	if _, err := c.client.Init(tb.Context(), &proto.InitRequest{ConfigJson: []byte(config)}); err != nil {
		tb.Fatal("init: ", err)
	}
	list, err := c.client.ListTools(tb.Context(), &proto.ListToolsRequest{})
	if err != nil {
		tb.Fatal("list: ", err)
	}
	for _, t := range list.GetTools() {
		c.tools[t.GetName()] = t
	}
	return c
}

// Intercept asks the plugin about a call, as toolgate does.
func (c *Client) Intercept(ctx context.Context, in *proto.InterceptRequest) (*proto.InterceptResponse, error) {
	return c.looks.Intercept(ctx, in)
}

// Call calls a tool with arguments that are written as JSON. Arguments and a
// structured result that do not fit their schemas are errors.
func (c *Client) Call(ctx context.Context, tool string, arguments any) (*Answer, error) {
	t := c.tools[tool]
	if t == nil {
		return nil, fmt.Errorf("there is no tool %q", tool)
	}
	args, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	if err := fits(t.GetInputSchemaJson(), args); err != nil {
		return nil, fmt.Errorf("the arguments: %w", err)
	}
	stream, err := c.client.Call(ctx, &proto.CallRequest{Name: tool, ArgumentsJson: args, CallId: "test"})
	if err != nil {
		return nil, err
	}
	out := &Answer{}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the tool gave no result")
		}
		if err != nil {
			return nil, err
		}
		switch e := event.GetEvent().(type) {
		case *proto.CallEvent_Progress:
			out.Progress = append(out.Progress, e.Progress)
		case *proto.CallEvent_Log:
			out.Logs = append(out.Logs, e.Log)
		case *proto.CallEvent_Result:
			r := e.Result
			out.IsError, out.Text, out.Structured, out.Content = r.GetIsError(), r.GetText(), r.GetStructuredJson(), r.GetContentJson()
			if len(t.GetOutputSchemaJson()) > 0 && !out.IsError {
				if err := fits(t.GetOutputSchemaJson(), out.Structured); err != nil {
					return nil, fmt.Errorf("the result: %w", err)
				}
			}
			return out, nil
		}
	}
}

func fits(schema, value []byte) error {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return fmt.Errorf("resolve the schema: %w", err)
	}
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	return resolved.Validate(v)
}

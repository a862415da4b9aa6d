package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/native/sdk/gosdk"
	"github.com/toolgate/toolgate/native/sdk/internal/inprocesstest"
	"github.com/toolgate/toolgate/native/sdk/sdktest"
)

type numbers struct {
	A int64 `json:"a"`
	B int64 `json:"b"`
}

type total struct {
	Sum int64 `json:"sum"`
}

func add(ctx context.Context, req *mcp.CallToolRequest, in numbers) (*mcp.CallToolResult, total, error) {
	for n, what := range []int64{in.A, in.B} {
		message := ""
		if n == 1 {
			message = "added"
		}
		err := errors.Join(
			req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: float64(n + 1), Total: 2, Message: message,
			}),
			req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: strconv.FormatInt(what, 10)}), //nolint:staticcheck // clients still have it
		)
		if err != nil {
			return nil, total{}, err
		}
	}
	return nil, total{in.A + in.B}, nil
}

func server(s *inprocesstest.Server) *mcp.Server {
	made := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{PageSize: 3})
	closed := false
	mcp.AddTool(made, &mcp.Tool{Name: "add", Annotations: &mcp.ToolAnnotations{Title: "Add up", ReadOnlyHint: true, OpenWorldHint: &closed}}, add)
	mcp.AddTool(made, &mcp.Tool{Name: "fail"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("no such place")
	})
	nothing := map[string]any{"type": "object"}
	for name, run := range map[string]mcp.ToolHandler{
		"digits": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{StructuredContent: json.RawMessage(`{"n":9007199254740993}`)}, nil
		},
		"broken": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("disk full")
		},
		"panics": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("a mistake") },
		"wait": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			close(s.Waiting)
			<-ctx.Done()
			close(s.Ended)
			return nil, ctx.Err()
		},
		"ask": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "May it?", RequestedSchema: nothing})
			return &mcp.CallToolResult{}, err
		},
		"with.dot": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "dotted"}}}, nil
		},
	} {
		made.AddTool(&mcp.Tool{Name: name, InputSchema: nothing}, run)
	}
	return made
}

func TestContract(t *testing.T) {
	s := inprocesstest.New()
	inprocesstest.Run(t, gosdk.New("test", "1", server(s), inprocesstest.Describe), s)
}

// A name that a plugin cannot have, and that nobody changes, ends the start.
func TestNames(t *testing.T) {
	if _, err := gosdk.New("test", "1", server(inprocesstest.New())).Open([]byte("{}")); err == nil {
		t.Error("a tool named with.dot is served")
	}
}

// Arguments that the server refuses are told to whoever called.
func TestInvalidParams(t *testing.T) {
	made := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	made.AddTool(&mcp.Tool{Name: "go", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "say where to"}
	})
	c := sdktest.Start(t, gosdk.New("test", "1", made), "{}")
	if got, err := c.Call(t.Context(), "go", struct{}{}); err != nil || !got.IsError || got.Text != "say where to" {
		t.Errorf("%+v %v", got, err)
	}
}

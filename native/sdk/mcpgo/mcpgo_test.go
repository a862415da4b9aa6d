package mcpgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/toolgate/toolgate/native/sdk/internal/inprocesstest"
	"github.com/toolgate/toolgate/native/sdk/mcpgo"
)

type numbers struct {
	A int64 `json:"a"`
	B int64 `json:"b"`
}

type total struct {
	Sum int64 `json:"sum"`
}

func add(ctx context.Context, req mcp.CallToolRequest, in numbers) (total, error) {
	s := server.ServerFromContext(ctx)
	for n, what := range []int64{in.A, in.B} {
		message := ""
		if n == 1 {
			message = "added"
		}
		err := errors.Join(
			s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": req.Params.Meta.ProgressToken, "progress": n + 1, "total": 2, "message": message,
			}),
			s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelInfo, "add", strconv.FormatInt(what, 10))),
		)
		if err != nil {
			return total{}, err
		}
	}
	return total{in.A + in.B}, nil
}

func newServer(s *inprocesstest.Server) *server.MCPServer {
	made := server.NewMCPServer("test", "1", server.WithLogging(), server.WithPaginationLimit(3), server.WithToolCapabilities(false))
	made.AddTool(mcp.NewTool("add", mcp.WithInputSchema[numbers](), mcp.WithOutputSchema[total](), mcp.WithTitleAnnotation("Add up"),
		mcp.WithReadOnlyHintAnnotation(true), mcp.WithOpenWorldHintAnnotation(false)), mcp.NewStructuredToolHandler(add))
	for name, run := range map[string]server.ToolHandlerFunc{
		"fail": func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultError("no such place"), nil
		},
		"digits": func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultStructuredOnly(json.RawMessage(`{"n":9007199254740993}`)), nil
		},
		"broken": func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("disk full")
		},
		"panics": func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("a mistake") },
		"wait": func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			close(s.Waiting)
			<-ctx.Done()
			close(s.Ended)
			return nil, ctx.Err()
		},
		"ask": func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_, err := server.ServerFromContext(ctx).RequestElicitation(ctx, mcp.ElicitationRequest{})
			return mcp.NewToolResultText("answered"), err
		},
		"with.dot": func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("dotted"), nil
		},
	} {
		made.AddTool(mcp.NewTool(name), run)
	}
	return made
}

func TestContract(t *testing.T) {
	s := inprocesstest.New()
	inprocesstest.Run(t, mcpgo.New("test", "1", newServer(s), inprocesstest.Describe), s)
}

// A name that a plugin cannot have, and that nobody changes, ends the start.
func TestNames(t *testing.T) {
	if _, err := mcpgo.New("test", "1", newServer(inprocesstest.New())).Open([]byte("{}")); err == nil {
		t.Error("a tool named with.dot is served")
	}
}

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/config"
	clientfiles "github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/upstream"
)

// demoServer is the name of the built-in demo.
const demoServer = "demo"

// addDemo adds the demo to a configuration without a file: toolgate itself as a server
// process, so that even the first try uses the real path.
func addDemo(c *config.Config) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the demo: %w", err)
	}
	c.Servers = append(c.Servers, config.Server{
		Key: demoServer, Namespace: demoServer, Transport: upstream.Stdio,
		Command: self, Args: []string{"demo-server"},
		Written: clientfiles.Written{Command: "toolgate", Args: []string{"demo-server"}},
		Timeouts: upstream.Timeouts{
			Start: config.DefaultStart, List: config.DefaultList, Call: config.DefaultCall, Hard: config.DefaultHard,
		},
		Protocol: config.ProtocolAuto, Isolation: upstream.IsolateAuto,
		Concurrency: config.DefaultConcurrency, Processes: config.DefaultProcesses,
	})
	return nil
}

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:    "demo-server",
		Short:  "Serve the demo tools over stdio",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return newDemoServer().Run(cmd.Context(), &sdk.StdioTransport{})
		},
	}
}

type addInput struct {
	A int64 `json:"a" jsonschema:"the first number"`
	B int64 `json:"b" jsonschema:"the second number"`
}

type addOutput struct {
	Sum int64 `json:"sum"`
}

type echoInput struct {
	Message string `json:"message" jsonschema:"what to say back"`
}

type countInput struct {
	To int `json:"to" jsonschema:"how far to count, at most 100"`
}

// newDemoServer returns the demo server. It needs no network and touches nothing.
func newDemoServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "toolgate-demo", Version: version.Version}, &sdk.ServerOptions{
		Instructions: "Harmless tools to try toolgate with.",
	})
	readOnly := &sdk.ToolAnnotations{ReadOnlyHint: true}
	sdk.AddTool(s, &sdk.Tool{Name: "add", Description: "Add two whole numbers", Annotations: readOnly},
		func(_ context.Context, r *sdk.CallToolRequest, in addInput) (*sdk.CallToolResult, addOutput, error) {
			// Numbers that the SDK decoded have passed through floating point, which
			// rounds whole numbers above 2^53.
			if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
				return nil, addOutput{}, fmt.Errorf("read the numbers: %w", err)
			}
			sum := in.A + in.B
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(sum)}}}, addOutput{sum}, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "Say something back", Annotations: readOnly},
		func(_ context.Context, _ *sdk.CallToolRequest, in echoInput) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Message}}}, nil, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "time", Description: "Tell the time of this machine", Annotations: readOnly},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: time.Now().Format(time.RFC3339)}}}, nil, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "count", Description: "Count slowly, with progress", Annotations: readOnly}, count)
	s.AddPrompt(&sdk.Prompt{Name: "greet", Description: "Greet somebody", Arguments: []*sdk.PromptArgument{{Name: "name", Required: true}}},
		func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
				{Role: "user", Content: &sdk.TextContent{Text: "Greet " + r.Params.Arguments["name"] + " warmly."}},
			}}, nil
		})
	s.AddResource(&sdk.Resource{URI: "demo://about", Name: "about", MIMEType: "text/plain"},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
				{URI: r.Params.URI, MIMEType: "text/plain", Text: "This is toolgate's built-in demo server."},
			}}, nil
		})
	return s
}

// count is a slow tool: it reports progress and stops when it is cancelled.
func count(ctx context.Context, r *sdk.CallToolRequest, in countInput) (*sdk.CallToolResult, any, error) {
	to := min(max(in.To, 1), 100)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 1; i <= to; i++ {
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-tick.C:
		}
		if token := r.Params.GetProgressToken(); token != nil {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: token, Progress: float64(i), Total: float64(to), Message: fmt.Sprintf("%d of %d", i, to),
			})
		}
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf("counted to %d", to)}}}, nil, nil
}

// selfTest calls a demo tool over HTTP, as any client would.
func selfTest(ctx context.Context, url string) {
	params := fmt.Appendf(nil, `{"name":"%s__add","arguments":{"a":2,"b":40},"_meta":{"%s":"%s","%s":%s,"%s":{}}}`, demoServer,
		mcp.MetaVersion, mcp.LatestModern, mcp.MetaClientInfo, proxy.Implementation(version.Version), mcp.MetaCapabilities)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/mcp", bytes.NewReader(mcp.AppendRequest(nil, "1", mcp.MethodToolsCall, params)))
	if err != nil {
		note("self-test: %v", err)
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set(mcp.HeaderVersion, string(mcp.LatestModern))
	r.Header.Set(mcp.HeaderMethod, mcp.MethodToolsCall)
	r.Header.Set(mcp.HeaderName, demoServer+"__add")
	began := time.Now()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		note("self-test: %v", err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	took := time.Since(began)
	msg, perr := mcp.Parse(body, mcp.Limits{})
	content := mcp.Lookup(msg.Result(), "structuredContent", "sum")
	if err != nil || perr != nil || content == nil {
		note("self-test failed: HTTP %d, %s", resp.StatusCode, body)
		return
	}
	say("self-test  %s__add(a=2, b=40) = %s  in %s\n", demoServer, content, took.Round(10*time.Microsecond))
}

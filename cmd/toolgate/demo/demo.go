// Package demo is the server that toolgate serves if there is no configuration, so that a
// first try needs nothing else.
package demo

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

	"github.com/toolgate/toolgate/config"
	clientfiles "github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/upstream"
)

// Name is the name of the server.
const Name = "demo"

// Add adds the demo to a configuration without a file: toolgate itself as a server
// process, so that even the first try uses the real path.
func Add(c *config.Config) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the demo: %w", err)
	}
	c.Servers = append(c.Servers, config.Server{
		Key: Name, Namespace: Name, Transport: upstream.Stdio,
		Command: self, Args: []string{"demo-server"},
		Written: clientfiles.Written{Command: "toolgate", Args: []string{"demo-server"}},
		Timeouts: upstream.Timeouts{
			Start: upstream.DefaultStart, List: upstream.DefaultList, Call: upstream.DefaultCall, Hard: upstream.DefaultHard,
		},
		Protocol: upstream.ProtocolAuto, Isolation: upstream.IsolateAuto,
		Concurrency: upstream.DefaultConcurrency, Processes: upstream.DefaultProcesses,
	})
	return nil
}

// Serve serves the demo on stdin and stdout until the client ends.
func Serve(ctx context.Context) error { return newServer().Run(ctx, &sdk.StdioTransport{}) }

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

// newServer returns the server. It needs no network and touches nothing.
func newServer() *sdk.Server {
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

// SelfTest calls a tool over HTTP, as any client would, and returns a line about it. url is
// the gateway's, without a path. The call may take 10 seconds.
func SelfTest(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	params := fmt.Appendf(nil, `{"name":"%s__add","arguments":{"a":2,"b":40},"_meta":{"%s":"%s","%s":%s,"%s":{}}}`, Name,
		mcp.MetaVersion, mcp.LatestModern, mcp.MetaClientInfo, proxy.Implementation(version.Version), mcp.MetaCapabilities)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/mcp", bytes.NewReader(mcp.AppendRequest(nil, "1", mcp.MethodToolsCall, params)))
	if err != nil {
		return "", fmt.Errorf("self-test: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set(mcp.HeaderVersion, string(mcp.LatestModern))
	r.Header.Set(mcp.HeaderMethod, mcp.MethodToolsCall)
	r.Header.Set(mcp.HeaderName, Name+"__add")
	began := time.Now()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", fmt.Errorf("self-test: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	took := time.Since(began)
	msg, perr := mcp.Parse(body, mcp.Limits{})
	content := mcp.Lookup(msg.Result(), "structuredContent", "sum")
	if err != nil || perr != nil || content == nil {
		return "", fmt.Errorf("self-test failed: HTTP %d, %s", resp.StatusCode, body)
	}
	return fmt.Sprintf("self-test  %s__add(a=2, b=40) = %s  in %s", Name, content, took.Round(10*time.Microsecond)), nil
}

//go:build e2e && unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// legacyVersion is the newest revision with a handshake.
const legacyVersion = "2025-11-25"

// runGoSDK runs the script with the official Go SDK.
func runGoSDK(ctx context.Context, t target) report {
	if t.Links != nil {
		return runCalls(ctx, "go-sdk", t, func(ctx context.Context, t target) (adapter, func() error, error) {
			c, err := dialGoSDK(ctx, t)
			if err != nil {
				return nil, nil, err
			}
			return c, c.Close, nil
		})
	}
	r := report{Client: "go-sdk", Checks: map[string]check{}}
	c, err := dialGoSDK(ctx, t)
	if err != nil {
		r.Error = err.Error()
		return r
	}
	r.Protocol = c.Protocol()
	r.Checks = runScript(ctx, c, t.Label)
	if err := c.Close(); err != nil {
		r.Error = fmt.Sprintf("closing the session: %v", err)
	}
	return r
}

// goSDK adapts a go-sdk session to the script.
type goSDK struct {
	session *mcp.ClientSession
	changed chan struct{}
	cancel  context.CancelFunc

	mu       sync.Mutex
	tokens   int
	progress map[string]func(float64)
}

// Close ends the session and what belongs to it.
func (c *goSDK) Close() error {
	defer c.cancel()
	return c.session.Close()
}

func dialGoSDK(ctx context.Context, t target) (*goSDK, error) {
	c := &goSDK{changed: make(chan struct{}, 1), progress: map[string]func(float64){}}
	options := &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			select {
			case c.changed <- struct{}{}:
			default:
			}
		},
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			c.mu.Lock()
			fn := c.progress[fmt.Sprint(req.Params.ProgressToken)]
			c.mu.Unlock()
			if fn != nil {
				fn(req.Params.Progress)
			}
		},
	}
	if t.person != nil {
		t.person.answerGoSDK(options)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "toolgate-e2e-go-sdk", Version: "1"}, options)
	if t.person != nil {
		client.AddRoots(t.person.goSDKRoot())
	}
	var wire mcp.Transport
	switch t.Transport {
	case "http":
		wire = &mcp.StreamableClientTransport{
			Endpoint: t.URL, MaxRetries: -1, HTTPClient: &http.Client{Transport: bearer{t.Key}},
		}
	case "sse":
		wire = &mcp.SSEClientTransport{Endpoint: t.URL}
	default:
		cmd := exec.Command(t.Command, t.Args...)
		cmd.Env = envList(t.Env)
		ownGroup(cmd)
		wire = &mcp.CommandTransport{Command: cmd}
	}
	version := legacyVersion
	if t.Era == "modern" {
		version = "" // the newest
	}
	// The stream of HTTP+SSE lives as long as this context, so that it must
	// outlive the connecting.
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(20*time.Second, cancel)
	defer late.Stop()
	c.cancel = cancel
	session, err := client.Connect(ctx, wire, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("connecting: %w", err)
	}
	c.session = session
	return c, nil
}

// bearer sends an API key with each request, if there is one.
type bearer struct{ key string }

func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	if b.key != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+b.key)
	}
	return http.DefaultTransport.RoundTrip(req)
}

func envList(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	return list
}

func (c *goSDK) Protocol() string { return c.session.InitializeResult().ProtocolVersion }

func (c *goSDK) Tools(ctx context.Context) ([]string, error) {
	var names []string
	for tool, err := range c.session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

func (c *goSDK) Prompts(ctx context.Context) ([]string, error) {
	var names []string
	for prompt, err := range c.session.Prompts(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, prompt.Name)
	}
	return names, nil
}

func (c *goSDK) Resources(ctx context.Context) ([]string, error) {
	var uris []string
	for resource, err := range c.session.Resources(ctx, nil) {
		if err != nil {
			return nil, err
		}
		uris = append(uris, resource.URI)
	}
	return uris, nil
}

func (c *goSDK) Templates(ctx context.Context) ([]string, error) {
	var uris []string
	for template, err := range c.session.ResourceTemplates(ctx, nil) {
		if err != nil {
			return nil, err
		}
		uris = append(uris, template.URITemplate)
	}
	return uris, nil
}

func (c *goSDK) Call(ctx context.Context, name, args string, onProgress func(float64)) (callResult, error) {
	params := &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)}
	if onProgress != nil {
		c.mu.Lock()
		c.tokens++
		token := fmt.Sprintf("token-%d", c.tokens)
		c.progress[token] = onProgress
		c.mu.Unlock()
		params.SetProgressToken(token)
	}
	result, err := c.session.CallTool(ctx, params)
	if err != nil {
		return callResult{}, err
	}
	var text strings.Builder
	for _, content := range result.Content {
		if tc, ok := content.(*mcp.TextContent); ok {
			text.WriteString(tc.Text)
		}
	}
	if result.IsError {
		return callResult{}, fmt.Errorf("tool error: %s", text.String())
	}
	structured, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return callResult{}, fmt.Errorf("writing structured content: %w", err)
	}
	return callResult{Text: text.String(), Structured: string(structured)}, nil
}

func (c *goSDK) Read(ctx context.Context, uri string) (string, error) {
	result, err := c.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return "", err
	}
	if len(result.Contents) != 1 {
		return "", fmt.Errorf("%s has %d contents", uri, len(result.Contents))
	}
	return result.Contents[0].Text, nil
}

func (c *goSDK) Prompt(ctx context.Context, name string, args map[string]string) (string, error) {
	result, err := c.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: args})
	if err != nil {
		return "", err
	}
	for _, m := range result.Messages {
		if tc, ok := m.Content.(*mcp.TextContent); ok {
			return tc.Text, nil
		}
	}
	return "", fmt.Errorf("prompt %s has no text", name)
}

// Ordered is false: the library hands notifications over beside the answers.
func (c *goSDK) Ordered() bool { return false }

// Watch needs nothing: a session of this library subscribes when it connects.
func (c *goSDK) Watch(context.Context) (<-chan struct{}, error) { return c.changed, nil }

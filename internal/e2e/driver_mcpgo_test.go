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

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// runMCPGo runs the script with mcp-go, the independent Go implementation.
func runMCPGo(ctx context.Context, t target) report {
	if t.Links != nil {
		return runCalls(ctx, "mcp-go", t, func(ctx context.Context, t target) (adapter, func() error, error) {
			c, err := dialMCPGo(ctx, t)
			if err != nil {
				return nil, nil, err
			}
			return c, c.client.Close, nil
		})
	}
	r := report{Client: "mcp-go", Checks: map[string]check{}}
	c, err := dialMCPGo(ctx, t)
	if err != nil {
		r.Error = err.Error()
		return r
	}
	r.Protocol = c.Protocol()
	r.Checks = runScript(ctx, c, t.Label)
	c.stop()
	if err := c.client.Close(); err != nil {
		r.Error = fmt.Sprintf("closing the client: %v", err)
	}
	return r
}

// mcpGo adapts an mcp-go client to the script.
type mcpGo struct {
	client  *client.Client
	changed chan struct{}
	stop    func()
	modern  bool

	mu       sync.Mutex
	tokens   int
	progress map[string]func(float64)
}

func dialMCPGo(ctx context.Context, t target) (*mcpGo, error) {
	modern := t.Era == "modern"
	opened := &streamOpened{is: make(chan struct{})}
	var wire transport.Interface
	var err error
	switch t.Transport {
	case "http":
		var opts []transport.StreamableHTTPCOption
		if t.Key != "" {
			opts = append(opts, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + t.Key}))
		}
		if !modern {
			// Without it this library opens no stream for notifications.
			opts = append(opts, transport.WithContinuousListening(), transport.WithHTTPBasicClient(&http.Client{Transport: opened}))
		}
		wire, err = transport.NewStreamableHTTP(t.URL, opts...)
	case "sse":
		wire, err = transport.NewSSE(t.URL)
	default:
		wire = transport.NewStdioWithOptions(t.Command, envList(t.Env), t.Args,
			transport.WithCommandFunc(func(_ context.Context, command string, env, args []string) (*exec.Cmd, error) {
				// Not of the context: Start's context would end the process with
				// the handshake.
				cmd := exec.Command(command, args...)
				cmd.Env = env
				ownGroup(cmd)
				return cmd, nil
			}))
	}
	if err != nil {
		return nil, fmt.Errorf("making a transport: %w", err)
	}
	var opts []client.ClientOption
	if !modern {
		opts = append(opts, client.WithLegacyProtocolOnly())
	}
	if t.person != nil {
		who := mcpGoPerson{t.person}
		opts = append(opts, client.WithElicitationHandler(who), client.WithSamplingHandler(who), client.WithRootsHandler(who))
	}
	c := &mcpGo{
		client:   client.NewClient(wire, opts...),
		changed:  make(chan struct{}, 1),
		stop:     func() {},
		modern:   modern,
		progress: map[string]func(float64){},
	}
	c.client.OnNotification(c.notified)
	// The transport lives as long as the context of Start.
	if err := c.client.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, fmt.Errorf("starting the transport: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	request := mcp.InitializeRequest{}
	request.Params.ClientInfo = mcp.Implementation{Name: "toolgate-e2e-mcp-go", Version: "1"}
	request.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	if !modern {
		request.Params.ProtocolVersion = legacyVersion
	}
	if _, err := c.client.Initialize(ctx, request); err != nil {
		_ = c.client.Close()
		return nil, fmt.Errorf("connecting: %w", err)
	}
	if t.Transport == "http" && !modern { // a question that a server asks before is lost, and its call with it
		select {
		case <-opened.is:
		case <-time.After(streamTime):
		}
	}
	return c, nil
}

// streamTime is how long the stream for a server's own messages is waited for.
const streamTime = 5 * time.Second

// streamOpened tells when a server has answered the request for the stream of its own
// messages, which the library opens in the background.
type streamOpened struct {
	once sync.Once
	is   chan struct{}
}

func (o *streamOpened) RoundTrip(r *http.Request) (*http.Response, error) {
	w, err := http.DefaultTransport.RoundTrip(r)
	if r.Method == http.MethodGet {
		o.once.Do(func() { close(o.is) })
	}
	return w, err
}

func (c *mcpGo) notified(n mcp.JSONRPCNotification) {
	switch n.Method {
	case "notifications/tools/list_changed":
		select {
		case c.changed <- struct{}{}:
		default:
		}
	case "notifications/progress":
		value, _ := n.Params.AdditionalFields["progress"].(float64)
		c.mu.Lock()
		fn := c.progress[fmt.Sprint(n.Params.AdditionalFields["progressToken"])]
		c.mu.Unlock()
		if fn != nil {
			fn(value)
		}
	}
}

// Ordered is true: one goroutine of the library reads and hands over.
func (c *mcpGo) Ordered() bool { return true }

func (c *mcpGo) Protocol() string { return c.client.ProtocolVersion() }

func (c *mcpGo) Tools(ctx context.Context) ([]string, error) {
	result, err := c.client.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, tool := range result.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

func (c *mcpGo) Prompts(ctx context.Context) ([]string, error) {
	result, err := c.client.ListPrompts(ctx, mcp.ListPromptsRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, prompt := range result.Prompts {
		names = append(names, prompt.Name)
	}
	return names, nil
}

func (c *mcpGo) Resources(ctx context.Context) ([]string, error) {
	result, err := c.client.ListResources(ctx, mcp.ListResourcesRequest{})
	if err != nil {
		return nil, err
	}
	var uris []string
	for _, resource := range result.Resources {
		uris = append(uris, resource.URI)
	}
	return uris, nil
}

func (c *mcpGo) Templates(ctx context.Context) ([]string, error) {
	result, err := c.client.ListResourceTemplates(ctx, mcp.ListResourceTemplatesRequest{})
	if err != nil {
		return nil, err
	}
	var uris []string
	for _, template := range result.ResourceTemplates {
		uris = append(uris, template.URITemplate.Raw())
	}
	return uris, nil
}

func (c *mcpGo) Call(ctx context.Context, name, args string, onProgress func(float64)) (callResult, error) {
	request := mcp.CallToolRequest{}
	request.Params.Name = name
	request.Params.Arguments = json.RawMessage(args)
	if onProgress != nil {
		c.mu.Lock()
		c.tokens++
		token := fmt.Sprintf("token-%d", c.tokens)
		c.progress[token] = onProgress
		c.mu.Unlock()
		request.Params.Meta = &mcp.Meta{ProgressToken: token}
	}
	result, err := c.client.CallTool(ctx, request)
	if err != nil {
		return callResult{}, err
	}
	var text strings.Builder
	for _, content := range result.Content {
		if tc, ok := content.(mcp.TextContent); ok {
			text.WriteString(tc.Text)
		}
	}
	if result.IsError {
		return callResult{}, fmt.Errorf("tool error: %s", text.String())
	}
	return callResult{Text: text.String(), Structured: string(result.RawStructuredContent)}, nil
}

func (c *mcpGo) Read(ctx context.Context, uri string) (string, error) {
	request := mcp.ReadResourceRequest{}
	request.Params.URI = uri
	result, err := c.client.ReadResource(ctx, request)
	if err != nil {
		return "", err
	}
	for _, content := range result.Contents {
		if tc, ok := content.(mcp.TextResourceContents); ok {
			return tc.Text, nil
		}
	}
	return "", fmt.Errorf("%s has no text", uri)
}

func (c *mcpGo) Prompt(ctx context.Context, name string, args map[string]string) (string, error) {
	request := mcp.GetPromptRequest{}
	request.Params.Name = name
	request.Params.Arguments = args
	result, err := c.client.GetPrompt(ctx, request)
	if err != nil {
		return "", err
	}
	for _, m := range result.Messages {
		if tc, ok := m.Content.(mcp.TextContent); ok {
			return tc.Text, nil
		}
	}
	return "", fmt.Errorf("prompt %s has no text", name)
}

// Watch opens the stream that a modern client has to ask for. The library does
// not say when it is acknowledged, so it gets a moment.
func (c *mcpGo) Watch(ctx context.Context) (<-chan struct{}, error) {
	if !c.modern {
		return c.changed, nil
	}
	failed := make(chan error, 1)
	stop, err := c.client.ListenAsync(context.WithoutCancel(ctx), mcp.SubscriptionFilter{ToolsListChanged: true},
		func(err error) { failed <- err })
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	c.stop = stop
	select {
	case err := <-failed:
		return nil, fmt.Errorf("listening: %w", err)
	case <-time.After(300 * time.Millisecond):
	}
	return c.changed, nil
}

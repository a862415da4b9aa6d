//go:build !windows

package daemon_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// bearing adds a key to requests.
type bearing string

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// A client of the Go SDK runs the functions of an agent on the open call, in three rounds and
// two of them at once, and is told of each step.
func TestAgentAsksARealClient(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	url := endpoint(t, `{"turns":[{"calls":[{"tool":"pick","args":{"of":1}},{"tool":"pick","args":{"of":2}}]},{"calls":[{"tool":"pick","args":{"of":3}}]},{"calls":[{"tool":"pick","args":{"of":4}}]},{"text":"done"}]}`)
	h.write(t, servers{}, withAgent(url, nil))
	r := h.newRunning(t)
	r.settle(t)
	var mu sync.Mutex
	var asked, steps []string
	client := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, req.Params.Message)
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"output": "picked"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			steps = append(steps, req.Params.Message)
		},
	})
	server := httptest.NewServer(r.Gateway.Handler())
	t.Cleanup(server.Close)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: server.URL + "/mcp", HTTPClient: &http.Client{Transport: bearing("alice")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	params := &sdk.CallToolParams{Name: "agent__researcher", Arguments: map[string]any{"task": "pick", "tools": []any{map[string]any{"name": "pick"}}}}
	params.SetProgressToken("p")
	got, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	text := got.Content[0].(*sdk.TextContent).Text
	mu.Lock()
	defer mu.Unlock()
	if text != "done" || len(asked) != 4 || len(steps) < 4 || !strings.Contains(asked[0], "run pick with") {
		t.Errorf("%s (%s): asked %q, steps %q", text, session.InitializeResult().ProtocolVersion, asked, steps)
	}
}

//go:build !windows

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Counts of the tests of budgets; `make soak` runs them in full.
var (
	budgetClients = flag.Int("budget-clients", 110, "how many clients call at once in the tests of budgets")
	budgetKills   = flag.Int("budget-kills", 2, "how often a gateway is killed in the tests of budgets")
)

// counted is an MCP server that counts its calls.
func counted(t *testing.T) (url string, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	server := sdk.NewServer(&sdk.Implementation{Name: "counted", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "count"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		n := calls.Add(1)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint("call ", n)}}}, nil, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	t.Cleanup(web.Close)
	return web.URL, calls
}

// spending is a configuration with a budget.
func spending(url, store string, limit int) (servers, map[string]any) {
	toolgate := map[string]any{
		"budgets": []any{map[string]any{"name": "total", "per": "tenant", "limit": limit, "window": "month"}},
		"limits":  map[string]any{"queue": 10000},
		"servers": map[string]any{"api": map[string]any{"concurrency": 64}},
	}
	if store != "" {
		toolgate["store"] = store
	}
	return servers{"api": {"type": "http", "url": url}}, toolgate
}

// callCount calls the tool of a gateway once and returns what became of it: "ok", or
// the kind of the refusal.
func callCount(ctx context.Context, client *http.Client, url string) (string, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"api__count","_meta":{%q:%q,%q:{}}}}`,
		mcp.MetaVersion, mcp.LatestModern, mcp.MetaCapabilities)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		mcp.HeaderVersion: string(mcp.LatestModern), mcp.HeaderMethod: "tools/call", mcp.HeaderName: "api__count",
	} {
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if bytes.Contains(answer, []byte(`"text":"call `)) {
		return "ok", nil
	}
	_, rest, found := bytes.Cut(answer, []byte(`"kind":"`))
	kind, _, _ := bytes.Cut(rest, []byte(`"`))
	if !found {
		return "", fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	return string(kind), nil
}

// uses returns what `toolgate budget ls` prints.
func (h *home) uses(t *testing.T, args ...string) []admin.BudgetUse {
	t.Helper()
	var all []admin.BudgetUse
	text := h.ok(t, append([]string{"budget", "ls", "--json", "--file", h.file}, args...)...)
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return all
}

func requireCharged(t *testing.T, h *home, delivered, inFlight int64) {
	t.Helper()
	uses := h.uses(t)
	if len(uses) != 1 || uses[0].Used < delivered || uses[0].Used > delivered+inFlight {
		t.Fatalf("%d calls reached the server, charged are %+v", delivered, uses)
	}
}

func spendingMore(limit int) []any {
	return []any{map[string]any{"name": "total", "per": "tenant", "limit": limit, "window": "month"}}
}

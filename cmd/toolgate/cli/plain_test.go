//go:build !windows

package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// legacySession is a session of a legacy client over HTTP.
type legacySession struct {
	t       *testing.T
	url, id string
}

// openLegacy opens a session of a client with capabilities.
func openLegacy(t *testing.T, url, capabilities string) *legacySession {
	t.Helper()
	s := &legacySession{t: t, url: url}
	s.request(mcp.MethodInitialize, `{"protocolVersion":"2025-06-18","capabilities":`+capabilities+`,"clientInfo":{"name":"t","version":"1"}}`)
	return s
}

// request makes one request and returns the answer.
func (s *legacySession) request(method, params string) []byte {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/mcp", body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if s.id != "" {
		r.Header.Set(mcp.HeaderSession, s.id)
	}
	answer, err := newClient(s.t).Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d %s %v", method, answer.StatusCode, raw, err)
	}
	if id := answer.Header.Get(mcp.HeaderSession); id != "" {
		s.id = id
	}
	_, data, streamed := strings.Cut(string(raw), "data: ")
	if streamed {
		raw = []byte(strings.TrimSpace(data))
	}
	return raw
}

func (s *legacySession) tools() []string {
	s.t.Helper()
	answer := s.request(mcp.MethodToolsList, `{}`)
	list := mcp.Lookup(answer, "result", "tools")
	var names []string
	for e := range mcp.Elements(list) {
		name, _ := mcp.LookupString(e.Of(list), "name")
		names = append(names, name)
	}
	return names
}

// A process that lists by what was declared to it is shown to each client as it
// shows itself, also after a restart and while it does not start.
func TestPlainCatalogOfAProcess(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	broken := h.path("broken")
	always := map[string]any{"servers": map[string]any{"a": map[string]any{"plain_catalog": "always"}}}
	h.write(t, servers{"a": fake("varies", "tools=1", "broken="+broken)}, always)
	full, plain := []string{"a__confirm", "a__t0"}, []string{"a__t0"}
	both := func(url string) {
		t.Helper()
		asked, silent := openLegacy(t, url, `{"elicitation":{}}`), openLegacy(t, url, `{"sampling":{}}`)
		testwait.Until(t, patience, "each client sees its list", func() bool {
			return slices.Equal(asked.tools(), full) && slices.Equal(silent.tools(), plain)
		})
		if got := silent.request(mcp.MethodToolsCall, `{"name":"a__confirm"}`); !strings.Contains(string(got), "Unknown tool") {
			t.Errorf("what is not listed is answered %s", got)
		}
	}
	first, url := h.up(t)
	both(url)
	first.stop(t, syscall.SIGTERM)

	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second, url := h.up(t)
	if got := openLegacy(t, url, `{}`).tools(); !slices.Equal(got, plain) {
		t.Errorf("the first list after a restart is %q", got)
	}
	both(url)
	if s := h.servers(t)["a"]; s.State != "stale" {
		t.Errorf("%+v", s)
	}
	second.stop(t, syscall.SIGTERM)

	h.write(t, servers{"a": fake("varies", "tools=1", "broken="+broken)}, nil)
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	third, url := h.up(t)
	both(url) // it is known to vary
	third.stop(t, syscall.SIGTERM)

	never := map[string]any{"servers": map[string]any{"a": map[string]any{"plain_catalog": "never"}}}
	h.write(t, servers{"a": fake("varies", "tools=1", "broken="+broken)}, never)
	_, url = h.up(t)
	testwait.Until(t, patience, "everyone sees the same", func() bool {
		return slices.Equal(openLegacy(t, url, `{}`).tools(), full)
	})
}

// careful is a server of another implementation, reached by URL, that leaves the
// tool "ask" out for sessions that cannot be asked. It returns where it is.
func careful(t *testing.T) (url string, s *sdk.Server) {
	t.Helper()
	s = sdk.NewServer(&sdk.Implementation{Name: "careful", Version: "1"}, nil)
	say := func(text string) sdk.ToolHandler {
		return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
		}
	}
	schema := json.RawMessage(`{"type":"object"}`)
	s.AddTool(&sdk.Tool{Name: "ask", InputSchema: schema}, say("asked"))
	s.AddTool(&sdk.Tool{Name: "both", InputSchema: schema}, say("done"))
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			result, err := next(ctx, method, r)
			list, ok := result.(*sdk.ListToolsResult)
			session, _ := r.GetSession().(*sdk.ServerSession)
			if err != nil || !ok || session.InitializeParams().Capabilities.Elicitation != nil {
				return result, err
			}
			shorter := *list
			shorter.Tools = slices.DeleteFunc(slices.Clone(list.Tools), func(tool *sdk.Tool) bool { return tool.Name == "ask" })
			return &shorter, nil
		}
	})
	server := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(server.Close)
	return server.URL, s
}

// A server that is reached by URL is asked for both lists by itself.
func TestPlainCatalogOverHTTP(t *testing.T) {
	t.Parallel()
	at, server := careful(t)
	h := newHome(t)
	h.write(t, servers{"a": {"type": "http", "url": at}}, map[string]any{"servers": map[string]any{"a": map[string]any{"protocol": "legacy"}}})
	gateway, url := h.up(t)
	asked, silent, rooted := openLegacy(t, url, `{"elicitation":{}}`), openLegacy(t, url, `{}`), openLegacy(t, url, `{"roots":{}}`)
	lists := func(full, plain []string) {
		t.Helper()
		testwait.Until(t, patience, "each client sees its list", func() bool {
			return slices.Equal(asked.tools(), full) && slices.Equal(silent.tools(), plain) && slices.Equal(rooted.tools(), plain)
		})
	}
	lists([]string{"a__ask", "a__both"}, []string{"a__both"})
	for _, s := range []*legacySession{asked, silent} {
		if got := s.request(mcp.MethodToolsCall, `{"name":"a__both"}`); !strings.Contains(string(got), "done") {
			t.Errorf("the call is answered %s", got)
		}
	}
	if got := asked.request(mcp.MethodToolsCall, `{"name":"a__ask"}`); !strings.Contains(string(got), "asked") {
		t.Errorf("the call is answered %s", got)
	}
	server.RemoveTools("ask")
	lists([]string{"a__both"}, []string{"a__both"})
	gateway.stop(t, syscall.SIGTERM)
}

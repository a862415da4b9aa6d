//go:build !windows

package daemon_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
)

// unknownTool tells whether a tool is as unknown as one that never was.
func unknownTool(t *testing.T, c *lineclient.Client, name string) bool {
	t.Helper()
	return strings.Contains(raw(t, c, "tools/call", `{"name":"`+name+`","arguments":{}}`), "Unknown tool")
}

// Two gateways share a store. What one of them finds out of a server that changes a
// tool without a word, the other goes by too, and what is accepted at one is served
// by both.
func TestGatewaysLookAgainTogether(t *testing.T) {
	t.Parallel()
	var described atomic.Value
	described.Store("one")
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
		server := sdk.NewServer(&sdk.Implementation{Name: "silent", Version: "1"}, nil)
		sdk.AddTool(server, &sdk.Tool{Name: "act", Description: described.Load().(string)}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
		})
		return server
	}, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	t.Cleanup(web.Close)

	database := postgres.URL(t)
	gateway := func() *running {
		h := newHome(t)
		settings := withKeys("k")
		settings["store"] = database
		h.write(t, servers{"s": {"type": "http", "url": web.URL}}, settings)
		r := h.newRunning(t)
		r.settle(t)
		return r
	}
	a, b := gateway(), gateway()
	ca, cb := a.Client(t, "k"), b.Client(t, "k")
	for _, c := range []*lineclient.Client{ca, cb} {
		if got := text(t, c, "s__act", `{}`); got != "done" {
			t.Fatalf("at first: %s", got)
		}
	}
	described.Store("two")
	a.ListAgain([]string{"s"}) // as at a restart
	testwait.Until(t, patience, "the changed tool is hidden by both", func() bool {
		return unknownTool(t, ca, "s__act") && unknownTool(t, cb, "s__act")
	})
	e, err := a.CatalogEntry(t.Context(), "s__act", "")
	if err != nil || e.State != store.StateHeld {
		t.Fatalf("%+v, %v", e, err)
	}
	a.change(t, admin.CatalogChange{Op: admin.CatalogAccept, Name: "s__act", Hash: e.HeldHash})
	testwait.Until(t, patience, "the accepted tool is served by both", func() bool { return !unknownTool(t, ca, "s__act") && !unknownTool(t, cb, "s__act") })
}

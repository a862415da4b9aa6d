package documents_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/cmd/toolgate/documents"
	"github.com/toolgate/toolgate/config"
)

// The servers that definitions name are those of a client's file, whichever of the ways to
// write them is used.
func TestServersOf(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"request.json": `{"tools": [
  {"type": "mcp", "server_label": "docs", "server_url": "https://docs.example.com/mcp", "allowed_tools": {"tool_names": ["search", "fetch"]},
   "require_approval": "never", "headers": {"X-Team": "a"}, "authorization": "token"},
  {"type": "mcp", "name": "find", "description": "Find", "parameters": {"type": "object"}, "mcp_server": "https://mcp.shop.example.com/mcp"},
  {"type": "mcp", "name": "buy", "mcp_server": "https://mcp.shop.example.com/mcp"},
  {"type": "mcp", "server_label": "all", "server_url": "https://all.example.com/mcp"}]}`,
		"list.json": `[
  {"type": "mcp", "server_label": "docs", "server_url": "https://docs.example.com/mcp", "allowed_tools": ["fetch", "search"], "headers": {"X-Team": "a", "Authorization": "Bearer token"}},
  {"name": "buy", "mcp_server": "https://mcp.shop.example.com/mcp"}, {"name": "find", "mcp_server": "https://mcp.shop.example.com/mcp"},
  {"type": "mcp", "server_label": "all", "server_url": "https://all.example.com/mcp"}, {"name": "one", "server_label": "all", "server_url": "https://all.example.com/mcp"}]`,
	} {
		path := file(t, name, text)
		if got := documents.Of(path); got != documents.Definitions {
			t.Errorf("%s is %q", name, got)
		}
		got, err := documents.ServersOf(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c, err := config.Parse("x.json", got, config.Options{Raw: true})
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, got)
			continue
		}
		found := map[string]string{}
		for i := range c.Servers {
			s := &c.Servers[i]
			headers := s.Headers["X-Team"].Reveal() + " " + s.Headers["Authorization"].Reveal()
			found[s.Key] = strings.TrimSpace(s.URL + " " + strings.Join(s.Include, ",") + " " + headers)
		}
		want := map[string]string{
			"docs":    "https://docs.example.com/mcp fetch,search a Bearer token",
			"example": "https://mcp.shop.example.com/mcp buy,find",
			"all":     "https://all.example.com/mcp",
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Of a list with anything that cannot be kept, every such line is named.
func TestDefinitionsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	path := file(t, "request.yaml", `model: large
tools:
  - { type: function, name: f, parameters: { type: object } }
  - { type: mcp, server_label: docs, server_url: "https://docs.example.com/mcp", require_approval: always, allowed_tools: [] }
  - { type: mcp, server_label: docs, server_url: "https://other.example.com/mcp" }
  - { type: mcp, server_label: local, connector_id: drive }
  - { type: code_interpreter }
  - { name: own, type: http, url: "https://x.example.com" }
  - { type: mcp, server_label: b, server_url: "https://b.example.com/mcp", authorization: 7, headers: [x], retries: 3 }
`)
	out, err := documents.ServersOf(path)
	if err == nil || out != nil {
		t.Fatalf("it was read: %s", out)
	}
	for _, want := range []string{
		":1: model: is part of a request", ":3: tools[0]", "agent__run", ":4: tools[1].require_approval", "requires_approval: true", ":4: tools[1].allowed_tools",
		":5: tools[2]", "another server is called docs", ":6: tools[3]", "mcpServers: { local: { url: ..., or command: ... } }",
		":7: tools[4]", "native: { code: {} }", ":8: tools[5]", "tool_files", ":9: tools[6].authorization", ":9: tools[6].headers", ":9: tools[6].retries: unknown key",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q:\n%v", want, err)
		}
	}
}

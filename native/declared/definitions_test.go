package declared_test

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/native/declared"
)

func TestDefinitions(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		`{type: mcp, server_label: docs, server_url: "https://docs.example/mcp"}`: "mcpServers: { docs: { url: https://docs.example/mcp } }",
		`{type: mcp, name: search, mcp_server: "https://mcp.docs.example/mcp"}`:   "mcpServers: { docs: { url: https://mcp.docs.example/mcp } }",
		`{type: mcp, name: search, mcp_server: docs}`:                             "mcpServers: { docs: { url: ..., or command: ... } }",
		`{name: search, mcp_server: "http://127.0.0.1:80/mcp"}`:                   "mcpServers: { server: { url: http://127.0.0.1:80/mcp } }",
		`{type: mcp, server_label: "a b", server_url: "ftp://x"}`:                 "mcpServers: { NAME: { url: ..., or command: ... } }",
		`{type: function, name: f, parameters: {type: object}}`:                   "agent__run",
		`{type: function, function: {name: f, parameters: {type: object}}}`:       "agent__run",
		`{type: code_interpreter}`:                                                "native: { code: {} }",
		`{type: web_search_preview}`:                                              "native: { web:",
		`{type: file_search, config: {store: x}}`:                                 "mcp-server-qdrant",
		`{type: "acme:render", name: render}`:                                     "NAME__TOOL",
		`{type: internal, name: x}`:                                               "plugins",
		`{type: http, name: x, url: "https://x", input_schema: {}}`:               "",
		`{name: x, tool_type: mcp}`:                                               "",
		`{name: x, type: command, args: [a], description: "mcp_server"}`:          "",
		`[a]`: "",
	} {
		n, err := format.ParseDocument("x.yaml", []byte("a: "+entry))
		if err != nil {
			t.Fatal(err)
		}
		n = n.Get("a")
		if is := declared.IsDefinition(n); is != (want != "") {
			t.Errorf("%s is a definition: %t", entry, is)
			continue
		}
		if want == "" {
			continue
		}
		if problem, hint := declared.Instead(n); problem == "" || !strings.Contains(hint, want) {
			t.Errorf("%s: %s; %s, want %q", entry, problem, hint, want)
		}
	}
}

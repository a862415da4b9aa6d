package declared

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/tree"
)

// IsDefinition tells whether an entry of a list of tools is a definition as a request to a
// model has it: a function, a tool of an MCP server, or one that the model's provider
// runs. Such a list says what a model may call, and not what runs it.
func IsDefinition(n *tree.Node) bool {
	if !n.IsMap() || n.Get(specType) != nil {
		return false
	}
	for _, key := range []string{"mcp_server", "server_label", "server_url"} {
		if n.Get(key) != nil {
			return true
		}
	}
	switch kind := text(n, "type"); kind {
	case "function", "mcp", "custom":
		return true
	default:
		return hosted(kind) != "" || strings.Contains(kind, ":")
	}
}

// DefinedServer is the MCP server that a definition names.
type DefinedServer struct {
	Label string // how the definition calls it
	URL   string // empty if it does not say where the server is
}

// ServerOf returns the server of a definition, and false for one that is no tool of a server.
func ServerOf(n *tree.Node) (DefinedServer, bool) {
	at := cmp.Or(text(n, "server_url"), text(n, "mcp_server"))
	if text(n, "type") != "mcp" && at == "" && text(n, "server_label") == "" {
		return DefinedServer{}, false
	}
	s := DefinedServer{Label: text(n, "server_label")}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		s.Label = cmp.Or(s.Label, at, text(n, "name"))
		return s, true
	}
	s.Label, s.URL = cmp.Or(s.Label, hostWord(u.Hostname())), at
	return s, true
}

// hostWord is a name for the server at a host: its word of most meaning.
func hostWord(host string) string {
	words := slices.DeleteFunc(strings.Split(host, "."), func(w string) bool { return w == "mcp" || w == "api" || w == "www" })
	if len(words) == 0 || plainNumber(words[0]) {
		return "server"
	}
	if len(words) > 1 {
		words = words[:len(words)-1] // the top-level domain
	}
	return words[len(words)-1]
}

func plainNumber(word string) bool { return strings.Trim(word, "0123456789") == "" }

// hosted says what to write for a kind of tool that a model's provider runs; empty for
// other kinds.
func hosted(kind string) string {
	kind, _, _ = strings.Cut(kind, "_preview")
	switch kind {
	case "code_interpreter":
		return "native: { code: {} }, whose tool is code__execute"
	case "web_search":
		return "native: { web: { search: { url: ... } } }, whose tool is web__search"
	case "file_search":
		return "the server of a vector store under mcpServers, such as qdrant: { command: uvx, args: [mcp-server-qdrant] }"
	case "local_shell":
		return "tools: [{ name: ..., type: command, args: [program, \"{argument}\"], input_schema: ... }]"
	case "computer_use", "computer", "image_generation", "internal", "apply_patch":
		return "native: { plugins: { NAME: { path: ..., sha256: ... } } } for a program that has the tool, or its server under mcpServers"
	}
	return ""
}

// word is a key that needs no quotes in any format.
var word = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Instead says of a definition why it is not declared, and what to write.
func Instead(n *tree.Node) (problem, hint string) {
	if s, ok := ServerOf(n); ok {
		label := s.Label
		if !word.MatchString(label) {
			label = "NAME"
		}
		runs := "url: ..., or command: ... "
		if s.URL != "" {
			runs = "url: " + s.URL
		}
		return "a tool of a server is not declared, because the server lists it itself",
			fmt.Sprintf("write mcpServers: { %s: { %s } } and take the entry out", label, strings.TrimSpace(runs))
	}
	kind := text(n, "type")
	if kind == "function" || kind == "custom" {
		return "a function is run by the client that defines it",
			"let the client hand it in as an argument of agent__run, in tools; or write type: http, command or python with what is to run it, and input_schema in place of parameters"
	}
	if own := hosted(kind); own != "" {
		return fmt.Sprintf("a tool of type %s is run by a model's provider", kind), "write under toolgate: " + own
	}
	return fmt.Sprintf("there is no type %s", kind),
		"write under toolgate: native: { plugins: { NAME: { path: ..., sha256: ... } } } for a program that has the tool; its name is then NAME__TOOL"
}

func text(n *tree.Node, key string) string {
	if v := n.Get(key); v != nil && v.Kind == tree.KindString {
		return v.Value
	}
	return ""
}

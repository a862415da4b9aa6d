package documents

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/native/declared"
)

// entriesOf are the entries of a list of tools: that of a document, or the document itself.
func entriesOf(root *tree.Node) []*tree.Node {
	if root.IsList() {
		return root.Items
	}
	if list := root.Get("tools"); list.IsList() {
		return list.Items
	}
	return nil
}

// definedServer is a server that definitions name, as a client's file has it.
type definedServer struct {
	Type    string            `json:"type,omitempty"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Tools   []string          `json:"includeTools,omitempty"`

	whole bool // some definition names the server and none of its tools
}

// ServersOf reads a list of definitions of tools, as a request to a model has them, and
// returns the servers that they name, as the text of a client's file. The error has every
// line that cannot be kept, with what to write.
func ServersOf(path string) ([]byte, error) {
	data, err := format.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &tree.Problems{File: path}
	root := format.Read(p, path, data)
	if root == nil {
		return nil, p.Err()
	}
	under := "tools"
	if root.IsList() {
		under = ""
	} else {
		for _, f := range root.Fields {
			if f.Key != "tools" {
				p.AtField(f, f.Key, "take it out: only the list of tools is imported", "is part of a request, and no tool")
			}
		}
	}
	servers := map[string]*definedServer{}
	for i, item := range entriesOf(root) {
		at := fmt.Sprintf("%s[%d]", under, i)
		if !declared.IsDefinition(item) {
			p.At(item, at, "put what toolgate is to run into a file of its own, which toolgate.tool_files names", "is no definition as the others of the list are")
			continue
		}
		s, ok := declared.ServerOf(item)
		if !ok || s.URL == "" {
			problem, hint := declared.Instead(item)
			p.At(item, at, hint, "%s", problem)
			continue
		}
		to := servers[s.Label]
		if to == nil {
			to = &definedServer{URL: s.URL}
			servers[s.Label] = to
		}
		if to.URL != s.URL {
			p.At(item, at, "give each server a server_label of its own", "another server is called %s, at %s", s.Label, to.URL)
			continue
		}
		to.read(p, item, at)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	for _, s := range servers {
		if s.whole {
			s.Tools = nil
		}
		slices.Sort(s.Tools)
		s.Tools = slices.Compact(s.Tools)
	}
	return json.Marshal(map[string]any{"mcpServers": servers})
}

// read takes over what a definition says of its server.
func (s *definedServer) read(p *tree.Problems, item *tree.Node, at string) {
	named := false
	for _, f := range item.Fields {
		path := tree.Join(at, f.Key)
		switch f.Key {
		case "type", "server_label", "server_url", "mcp_server":
		case "description", "parameters", "server_description", "strict":
			// The server lists its own.
		case "name":
			s.Tools, named = append(s.Tools, f.Value.Value), true
		case "headers":
			for name, value := range textsOf(p, f, path) {
				if s.Headers == nil {
					s.Headers = map[string]string{}
				}
				s.Headers[name] = value
			}
		case "authorization":
			if f.Value.Kind != tree.KindString {
				p.AtField(f, path, "write the token as a text", "expected a text, found %s", f.Value.Kind)
				continue
			}
			if s.Headers == nil {
				s.Headers = map[string]string{}
			}
			s.Headers["Authorization"] = "Bearer " + strings.TrimPrefix(f.Value.Value, "Bearer ")
		case "allowed_tools":
			s.allowed(p, f, path)
			named = true
		case "require_approval":
			if f.Value.Value != "never" {
				p.AtField(f, path, "take it out, and write toolgate: { governance: { tools: { \"SERVER__TOOL\": { requires_approval: true } } } }, with a * for many tools",
					"a list of servers does not say who is asked")
			}
		default:
			p.AtField(f, path, "take it out, or write what it means under toolgate.servers", "unknown key")
		}
	}
	s.whole = s.whole || !named
}

// allowed takes over a list of the tools that may be called.
func (s *definedServer) allowed(p *tree.Problems, f tree.Field, path string) {
	list := f.Value
	if list.IsMap() && len(list.Fields) == 1 && list.Get("tool_names").IsList() {
		list = list.Get("tool_names")
	}
	if !list.IsList() {
		p.AtField(f, path, "write the names of tools: [a, b]", "expected a list, found %s", f.Value.Kind)
		return
	}
	if len(list.Items) == 0 {
		p.AtField(f, path, "write the names of tools, or take the key out for all of them", "an empty list would be no tool to some and every tool to others")
		return
	}
	for _, name := range list.Items {
		s.Tools = append(s.Tools, name.Value)
	}
}

func textsOf(p *tree.Problems, f tree.Field, path string) map[string]string {
	if !f.Value.IsMap() {
		p.AtField(f, path, "write { } with headers in it", "expected a map, found %s", f.Value.Kind)
		return nil
	}
	out := map[string]string{}
	for _, h := range f.Value.Fields {
		if h.Value.Kind != tree.KindString {
			p.AtField(h, tree.Join(path, h.Key), "write a text", "expected a text, found %s", h.Value.Kind)
			continue
		}
		out[h.Key] = h.Value.Value
	}
	return out
}

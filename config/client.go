package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/tree"
)

// Client is whose file a configuration is. Files of clients that differ in
// nothing that matters here are ClientOther.
type Client string

// The clients whose files are told apart.
const (
	ClientOther         Client = ""
	ClientClaudeDesktop Client = "claude-desktop"
	ClientClaudeCode    Client = "claude-code"
	ClientVSCode        Client = "vscode"
	ClientCursor        Client = "cursor"
	ClientWindsurf      Client = "windsurf"
	ClientZed           Client = "zed"
	ClientGoose         Client = "goose"
	ClientCodex         Client = "codex"
	ClientGemini        Client = "gemini"
	ClientContinue      Client = "continue"
	ClientCline         Client = "cline"
	ClientRoo           Client = "roo"
	ClientOpenCode      Client = "opencode"
	ClientAmp           Client = "amp"
	ClientVibe          Client = "vibe"
)

// section is one place of a file that holds servers.
type section struct {
	path    string
	servers *tree.Node // a map by key, or a list with names
	inputs  *tree.Node // VS Code's input definitions beside it
}

// entry is one server as the file has it.
type entry struct {
	key  string
	path string // of the entry in the file
	line int
	node *tree.Node
}

// clientFile is where a file holds the servers of a client.
type clientFile struct {
	name     string
	client   Client
	root     *tree.Node
	sections []section
}

// MaxServers is how many servers one file may have.
const MaxServers = 1000

// findClient looks for every place of the file that holds servers, and for whose
// file it is. The name tells clients apart whose files look alike. Names that other software uses for other things too (servers,
// mcp, extensions) count only where something in them looks like a server.
func findClient(name string, root *tree.Node) *clientFile {
	var found []section
	client := ClientOther
	add := func(path string, n, inputs *tree.Node, c Client) {
		found = append(found, section{path, n, inputs})
		if client == ClientOther {
			client = c
		}
	}
	if n := root.Get("mcpServers"); n.IsMap() {
		add("mcpServers", n, nil, clientByPath(name))
		if client == ClientOther {
			client = clientByEntries(n)
		}
	} else if n.IsList() {
		add("mcpServers", n, nil, ClientContinue)
	}
	if n := root.Get("servers"); holdsServers(n) {
		add("servers", n, root.Get("inputs"), ClientVSCode)
	}
	if mcp := root.Get("mcp"); mcp.IsMap() {
		switch n := mcp.Get("servers"); {
		case holdsServers(n) && n.IsMap() && !looksLikeServer(n):
			c := ClientVSCode
			for _, f := range n.Fields {
				if t := f.Value.Get("type"); t != nil && (t.Value == "local" || t.Value == "remote") {
					c = ClientOpenCode
				}
			}
			add("mcp.servers", n, mcp.Get("inputs"), c)
		case holdsServers(mcp):
			add("mcp", mcp, nil, ClientOpenCode)
		}
	}
	if n := root.Get("mcp_servers"); n.IsMap() {
		add("mcp_servers", n, nil, ClientCodex)
	} else if n.IsList() {
		add("mcp_servers", n, nil, ClientVibe)
	}
	if n := root.Get("context_servers"); n.IsMap() {
		add("context_servers", n, nil, ClientZed)
	}
	if n := root.Get("extensions"); holdsServers(n) {
		add("extensions", n, nil, ClientGoose)
	}
	if n := root.Get("amp.mcpServers"); n.IsMap() {
		add("amp.mcpServers", n, nil, ClientAmp)
	} else if n := root.Get("amp").Get("mcpServers"); n.IsMap() {
		add("amp.mcpServers", n, nil, ClientAmp)
	}
	if mcp := root.Get("customizations").Get("vscode").Get("mcp"); mcp.IsMap() {
		if n := mcp.Get("servers"); n.IsMap() {
			add("customizations.vscode.mcp.servers", n, mcp.Get("inputs"), ClientVSCode)
		}
	}
	return &clientFile{name, client, root, found}
}

// empty tells whether the file has no place that holds servers.
func (f *clientFile) empty() bool { return len(f.sections) == 0 }

// clientByPath tells clients that share the key mcpServers apart by the name of
// the file or of its folder.
func clientByPath(name string) Client {
	parts := strings.Split(strings.ToLower(filepath.ToSlash(name)), "/")
	base, dirs := parts[len(parts)-1], parts[:len(parts)-1]
	parent := ""
	if len(dirs) > 0 {
		parent = dirs[len(dirs)-1]
	}
	in := func(dir string) bool { return slices.Contains(dirs, dir) }
	switch {
	case base == "claude_desktop_config.json":
		return ClientClaudeDesktop
	case base == ".mcp.json" || base == ".claude.json" || base == "managed-mcp.json":
		return ClientClaudeCode
	case base == "cline_mcp_settings.json" || parent == ".cline" || in("saoudrizwan.claude-dev"):
		return ClientCline
	case base == "mcp_settings.json" || parent == ".roo":
		return ClientRoo
	case parent == ".cursor":
		return ClientCursor
	case parent == ".vscode":
		return ClientVSCode
	case in(".codeium"):
		return ClientWindsurf
	case parent == ".gemini" && base == "settings.json":
		return ClientGemini
	case in(".continue"):
		return ClientContinue
	}
	return ClientOther
}

// clientByEntries recognises spellings that one client alone uses.
func clientByEntries(servers *tree.Node) Client {
	for _, f := range servers.Fields {
		e := f.Value
		switch {
		case e.Get("httpUrl") != nil:
			return ClientGemini
		case e.Get("serverUrl") != nil:
			return ClientWindsurf
		case e.Get("alwaysAllow") != nil:
			return ClientRoo
		}
		if t := e.Get("type"); t != nil && t.Value == "streamableHttp" {
			return ClientCline
		}
	}
	return ClientOther
}

// serverKeys are keys of which a server entry has at least one.
var serverKeys = []string{"command", "cmd", "url", "uri", "httpUrl", "serverUrl"}

func looksLikeServer(n *tree.Node) bool {
	for _, k := range serverKeys {
		if v := n.Get(k); v != nil && (v.Kind == tree.KindString || v.Kind == tree.KindList) {
			return true
		}
	}
	return false
}

func holdsServers(n *tree.Node) bool {
	switch {
	case n.IsMap():
		for _, f := range n.Fields {
			if looksLikeServer(f.Value) {
				return true
			}
		}
	case n.IsList():
		return slices.ContainsFunc(n.Items, looksLikeServer)
	}
	return false
}

// entries lists the entries of all sections. A key that stands in two of them,
// or twice in a list, is a fault of the file.
func (f *clientFile) entries(p *tree.Problems) []entry {
	var entries []entry
	first, full := map[string]int{}, false
	add := func(e entry, column int) {
		if line, dup := first[e.key]; dup {
			p.At(&tree.Node{Line: e.line, Column: column}, e.path, "rename one of the two", "a server named %q is already on line %d", e.key, line)
			return
		}
		first[e.key] = e.line
		if len(entries) == MaxServers {
			if !full {
				p.At(&tree.Node{Line: e.line, Column: column}, e.path, "", "the file has more than %d servers", MaxServers)
			}
			full = true
			return
		}
		entries = append(entries, e)
	}
	for _, s := range f.sections {
		for _, field := range s.servers.Fields {
			if field.Key == "" {
				p.AtField(field, s.path, "give the server a name", "a server has an empty name")
				continue
			}
			add(entry{field.Key, s.path + "." + field.Key, field.Line, field.Value}, field.Column)
		}
		for i, item := range s.servers.Items {
			path := fmt.Sprintf("%s[%d]", s.path, i)
			name := item.Get("name")
			if name == nil || name.Kind != tree.KindString || name.Value == "" {
				p.At(item, path, "add name: ...", "a server in a list needs a name")
				continue
			}
			add(entry{name.Value, path, item.Line, item}, item.Column)
		}
	}
	return entries
}

// otherProjects lists the servers that Claude Code keeps for single projects in
// its user file.
func (f *clientFile) otherProjects() []Skipped {
	var out []Skipped
	projects := f.root.Get("projects")
	if !projects.IsMap() {
		return nil
	}
	for _, p := range projects.Fields {
		servers := p.Value.Get("mcpServers")
		if !servers.IsMap() {
			continue
		}
		for _, s := range servers.Fields {
			out = append(out, Skipped{
				Key: s.Key, Line: s.Line,
				Reason: fmt.Sprintf("it belongs to the project %s alone; copy it to the top-level mcpServers to use it here", p.Key),
			})
		}
	}
	return out
}

// switchedOff is what Gemini's mcp.allowed and mcp.excluded say about a key.
func (f *clientFile) switchedOff(key string) bool {
	if f.client != ClientGemini {
		return false
	}
	mcp := f.root.Get("mcp")
	has := func(n *tree.Node) bool {
		return slices.ContainsFunc(n.Items, func(i *tree.Node) bool { return i.Value == key })
	}
	if excluded := mcp.Get("excluded"); excluded.IsList() && has(excluded) {
		return true
	}
	allowed := mcp.Get("allowed")
	return allowed.IsList() && len(allowed.Items) > 0 && !has(allowed)
}

// clientOwn names the kind of an extension that runs inside its client.
func (e entry) clientOwn() string {
	if t := e.node.Get("type"); t != nil && slices.Contains([]string{"builtin", "platform", "frontend", "inline_python"}, t.Value) {
		return t.Value
	}
	return ""
}

// inputs are the definitions of all sections, by id.
func (f *clientFile) inputs() map[string]*tree.Node {
	out := map[string]*tree.Node{}
	for _, s := range f.sections {
		if !s.inputs.IsList() {
			continue
		}
		for _, def := range s.inputs.Items {
			if id := def.Get("id"); id != nil {
				out[id.Value] = def
			}
		}
	}
	return out
}

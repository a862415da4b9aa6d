package clients

import (
	"fmt"
	"slices"

	"github.com/toolgate/toolgate/config/tree"
)

// section is one place of a file that holds servers.
type section struct {
	path    string
	servers *tree.Node // a map by key, or a list with names
	inputs  *tree.Node // VS Code's input definitions beside it
}

// Entry is one server as it stands in the file.
type Entry struct {
	Source string     // the file as it was named
	Key    string     // the server's name
	Path   string     // of the entry in the file: mcpServers.github
	Line   int        // where the entry begins
	Node   *tree.Node // what is written; nil and anything but a map are refused when it is read
}

// Skipped is an entry of the file that was left out on purpose.
type Skipped struct {
	File   string
	Key    string
	Line   int
	Reason string
}

// File is where a file holds the servers of a client.
type File struct {
	// Client is whose file it is.
	Client   Client
	name     string
	root     *tree.Node
	sections []section
}

// MaxServers is how many servers one file may have.
const MaxServers = 1000

// Find looks for every place of a file that holds servers, and for whose file it is. The
// file's name tells clients apart whose files look alike. Keys that other software uses
// for other things too (servers, mcp, extensions) count only where something in them
// looks like a server.
func Find(name string, root *tree.Node) *File {
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
	if n := root.Get("MCP_SERVERS"); n.IsMap() {
		add("MCP_SERVERS", n, nil, ClientOther)
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
	return &File{Client: client, name: name, root: root, sections: found}
}

// Empty tells whether the file has no place that holds servers.
func (f *File) Empty() bool { return len(f.sections) == 0 }

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

// Entries lists the entries of all places, in file order within each. A key that stands
// in two of them, or twice in a list, is a fault of the file, and so are more than
// [MaxServers].
func (f *File) Entries(p *tree.Problems) []Entry {
	var entries []Entry
	first, full := map[string]int{}, false
	add := func(e Entry, column int) {
		if line, dup := first[e.Key]; dup {
			p.At(&tree.Node{Line: e.Line, Column: column}, e.Path, "rename one of the two", "a server named %q is already on line %d", e.Key, line)
			return
		}
		first[e.Key] = e.Line
		if len(entries) == MaxServers {
			if !full {
				p.At(&tree.Node{Line: e.Line, Column: column}, e.Path, "", "the file has more than %d servers", MaxServers)
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
			add(Entry{f.name, field.Key, s.path + "." + field.Key, field.Line, field.Value}, field.Column)
		}
		for i, item := range s.servers.Items {
			path := fmt.Sprintf("%s[%d]", s.path, i)
			name := item.Get("name")
			if name == nil || name.Kind != tree.KindString || name.Value == "" {
				p.At(item, path, "add name: ...", "a server in a list needs a name")
				continue
			}
			add(Entry{f.name, name.Value, path, item.Line, item}, item.Column)
		}
	}
	return entries
}

// OtherProjects lists the servers that Claude Code keeps for single projects in
// its user file.
func (f *File) OtherProjects() []Skipped {
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
				File: f.name, Key: s.Key, Line: s.Line,
				Reason: fmt.Sprintf("it belongs to the project %s alone; copy it to the top-level mcpServers to use it here", p.Key),
			})
		}
	}
	return out
}

// switchedOff is what Gemini's mcp.allowed and mcp.excluded say about a key.
func (f *File) switchedOff(key string) bool {
	if f.Client != ClientGemini {
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

// BuiltIn names the kind of an extension that runs inside its client, "" for a server.
func (e Entry) BuiltIn() string {
	if t := e.Node.Get("type"); t != nil && slices.Contains([]string{"builtin", "platform", "frontend", "inline_python"}, t.Value) {
		return t.Value
	}
	return ""
}

// Inputs are the definitions of VS Code's inputs, by id.
func (f *File) Inputs() map[string]*tree.Node {
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

package declared

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/tree"
)

// The keys by which an entry is known as a specification of another tool system, which
// keeps what runs a tool and what is known of it in maps of their own.
const (
	specType    = "tool_type"
	specRuns    = "implementation_config"
	specMeta    = "metadata"
	specTimeout = "timeout_seconds"
)

// Specs returns a document whose list tools may hold specifications of another tool
// system, with each of them in the keys of [Settings] and in its place. What cannot be
// said in them is a problem of its line, with what to write. The document itself is not
// changed; one that holds no such specification is returned as it is.
func Specs(p *tree.Problems, doc *tree.Node) *tree.Node {
	list := doc.Get("tools")
	if !list.IsList() || !slices.ContainsFunc(list.Items, func(n *tree.Node) bool { return isSpec(n) || IsDefinition(n) }) {
		return doc
	}
	own := *list
	own.Items = slices.Clone(list.Items)
	for i, item := range own.Items {
		if IsDefinition(item) {
			problem, hint := Instead(item)
			p.At(item, fmt.Sprintf("tools[%d]", i), hint, "%s", problem)
			own.Items[i] = refused(item)
			continue
		}
		if isSpec(item) {
			s := &spec{p: p, path: fmt.Sprintf("tools[%d]", i), to: &tree.Node{Kind: tree.KindMap, Line: item.Line, Column: item.Column}}
			before := len(p.List)
			s.read(item)
			own.Items[i] = s.to
			if len(p.List) > before {
				own.Items[i] = refused(item)
			}
		}
	}
	with := *doc
	with.Fields = slices.Clone(doc.Fields)
	for i := range with.Fields {
		if with.Fields[i].Key == "tools" {
			with.Fields[i].Value = &own
		}
	}
	return &with
}

// refused stands for an entry whose problems are known, so that nobody looks for more.
func refused(item *tree.Node) *tree.Node {
	word := func(text string) *tree.Node {
		return &tree.Node{Kind: tree.KindString, Value: text, Line: item.Line, Column: item.Column}
	}
	args := &tree.Node{Kind: tree.KindList, Items: []*tree.Node{word("none")}, Line: item.Line, Column: item.Column}
	n := &tree.Node{Kind: tree.KindMap, Line: item.Line, Column: item.Column, Fields: []tree.Field{
		{Key: "type", Value: word("command")}, {Key: "args", Value: args},
	}}
	for _, f := range item.Fields {
		if f.Key == "name" || f.Key == "namespace" {
			n.Fields = append(n.Fields, f)
		}
	}
	return n
}

func isSpec(n *tree.Node) bool {
	return n.Get("parameters") != nil || n.Get(specType) != nil || n.Get(specRuns) != nil || n.Get(specMeta) != nil || n.Get("command") != nil || n.Get("shell") != nil || isLine(n.Get("args"))
}

// isLine tells whether the arguments of a command are one text, as a shell would read it.
func isLine(n *tree.Node) bool { return n != nil && n.Kind == tree.KindString && n.Origin == nil }

// shellLine is a text that is read as a line for a shell.
func shellLine(key string, n *tree.Node) bool {
	return key == "command" || key == "shell" || key == "args" && isLine(n)
}

// spec is a specification that is read.
type spec struct {
	p    *tree.Problems
	path string
	to   *tree.Node // in our keys
}

func (s *spec) read(n *tree.Node) {
	for _, f := range n.Fields {
		switch f.Key {
		case specType:
			s.put(f, "type", s.kind(f))
		case specRuns, specMeta:
			// below
		case "display_name":
			s.put(f, "title", f.Value)
		case "parameters":
			s.put(f, "input_schema", f.Value)
		case specTimeout:
			s.put(f, "timeout", seconds(f.Value))
		default:
			if shellLine(f.Key, f.Value) {
				s.command(f, tree.Join(s.path, f.Key))
				continue
			}
			s.put(f, f.Key, f.Value)
		}
	}
	s.each(n, specRuns, s.runs)
	s.each(n, specMeta, s.known)
}

// each reads the members of a map of the specification.
func (s *spec) each(n *tree.Node, key string, read func(f tree.Field, path string)) {
	m := n.Get(key)
	if m.IsNull() {
		return
	}
	if !m.IsMap() {
		s.p.At(m, tree.Join(s.path, key), "write { } with settings in it", "expected a map, found %s", m.Kind)
		return
	}
	for _, f := range m.Fields {
		if !f.Value.IsNull() {
			read(f, tree.Join(tree.Join(s.path, key), f.Key))
		}
	}
}

// kind is the type of a tool.
func (s *spec) kind(f tree.Field) *tree.Node {
	as, at := *f.Value, tree.Join(s.path, f.Key)
	switch as.Value {
	case typeHTTP, typeCommand, typePython:
	case "sandbox", "shell":
		as.Value = typeCommand
	case "mcp":
		s.p.At(f.Value, at, "put its server under mcpServers, and take the entry out; the server lists its tools itself", "a tool of a server is not declared")
		return nil
	default:
		s.p.At(f.Value, at, "write type: http, type: command or type: python", "there is no type %q", as.Value)
		return nil
	}
	return &as
}

// runs reads what runs the tool.
func (s *spec) runs(f tree.Field, path string) {
	switch f.Key {
	case "command":
		s.command(f, path)
	case "function_name":
		s.put(f, "function", f.Value)
	case specTimeout:
		s.put(f, "timeout", seconds(f.Value))
	default:
		s.put(f, f.Key, f.Value)
	}
}

// shellOnly are characters that mean something to a shell and nothing to a program.
const shellOnly = "|&;<>()$`\\\"'*?[]#~=%\n"

// command reads the program of a command: a list, or the name of a program alone. Of a
// line for a shell an argument would become commands.
func (s *spec) command(f tree.Field, path string) {
	if f.Value.IsList() {
		s.put(f, "args", f.Value)
		return
	}
	words := strings.Fields(f.Value.Value)
	if len(words) == 1 && !strings.ContainsAny(words[0], shellOnly+"{}") {
		list := tree.Node{Kind: tree.KindList, Items: []*tree.Node{f.Value}, Line: f.Value.Line, Column: f.Value.Column}
		s.put(f, "args", &list)
		return
	}
	if strings.ContainsAny(f.Value.Value, shellOnly) || len(words) == 0 {
		s.p.At(f.Value, path, "write args: [program, argument, ...], with a program for what the shell did",
			"no shell reads a command, and this line needs one")
		return
	}
	for i, w := range words {
		if strings.ContainsAny(w, "{},:") {
			words[i] = `"` + w + `"`
		}
	}
	s.p.At(f.Value, path, "write args: ["+strings.Join(words, ", ")+"]",
		"no shell reads a command: each argument is an element of its own, so that what takes the place of {NAME} stays one argument")
}

// known reads what is known of the tool.
func (s *spec) known(f tree.Field, path string) {
	word := func(text string) *tree.Node {
		return &tree.Node{Kind: tree.KindString, Value: text, Line: f.Value.Line, Column: f.Value.Column}
	}
	switch f.Key {
	case "requires_approval":
		s.put(f, "approval", f.Value)
	case "is_dangerous":
		switch {
		case f.Value.Kind != tree.KindBool:
			s.p.At(f.Value, path, "write true or false", "expected true or false, found %s", f.Value.Kind)
		case f.Value.Value == "true":
			s.put(f, "class", word("destructive"))
			s.put(f, "risk", word("high"))
		}
	case "risk_level":
		s.put(f, "risk", f.Value)
	case specTimeout:
		s.put(f, "timeout", seconds(f.Value))
	case "permissions":
		s.p.AtField(f, path, "write who may call it under capsules or spicedb, or in a policy", "a declaration does not say who may call the tool")
	default:
		s.put(f, f.Key, f.Value)
	}
}

// put writes a setting, unless the value has been refused or another key says the same.
func (s *spec) put(f tree.Field, key string, v *tree.Node) {
	if v == nil {
		return
	}
	if s.to.Get(key) != nil {
		s.p.AtField(f, tree.Join(s.path, key), "remove one of the two", "%s says the same as another key of the entry", f.Key)
		return
	}
	f.Key, f.Value = key, v
	s.to.Fields = append(s.to.Fields, f)
}

// seconds is a number of seconds as a duration.
func seconds(n *tree.Node) *tree.Node {
	if n.Kind != tree.KindNumber {
		return n
	}
	as := *n
	as.Kind, as.Value = tree.KindString, n.Value+"s"
	return &as
}

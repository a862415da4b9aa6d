package opa

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/toolgate/toolgate/gate"
)

// DataKeys are the keys of data that have a meaning for the gateway, sorted.
func DataKeys() []string { return slices.Sorted(maps.Keys(shapes)) }

// Mention is a capability that the policy's own data name.
type Mention struct {
	Key  string    // of data, as in "global_tool_deny"
	Name string    // as the data have it
	At   gate.Rule // where; its line is 0 where it is not found
}

// Mentions returns the capabilities that the policy's own data files name, by
// key and name. A remote server has its own data, of which nothing is known
// here.
func (p *Phase) Mentions() []Mention {
	now := p.current.Load()
	if now == nil {
		return nil
	}
	own := dataOf(now.compiled.ownShapes())
	named := map[string][]string{
		keyCatalog: slices.Collect(maps.Keys(own.ToolCatalog)), keyTools: slices.Collect(maps.Keys(own.Tools)),
		keyGlobalDeny: own.GlobalToolDeny,
	}
	for _, flags := range own.TenantToolFlags {
		named[keyFlags] = slices.AppendSeq(named[keyFlags], maps.Keys(flags))
	}
	for _, denied := range own.PersonaToolDeny {
		named[keyPersonaDeny] = append(named[keyPersonaDeny], denied...)
	}
	for _, tools := range own.TenantRestrictedArgs {
		named[keyRestricted] = slices.AppendSeq(named[keyRestricted], maps.Keys(tools))
	}
	var all []Mention
	for _, key := range slices.Sorted(maps.Keys(named)) {
		slices.Sort(named[key])
		for _, name := range slices.Compact(named[key]) {
			all = append(all, Mention{key, name, now.compiled.locate(key, name)})
		}
	}
	return all
}

// ownShapes are the members of the policy's own data that have a shape.
func (c *compiled) ownShapes() map[string]any {
	own := map[string]any{}
	for key := range shapes {
		if v, ok := c.data[key]; ok {
			own[key] = v
		}
	}
	return own
}

// UnreadData returns the keys of the policy's own data that mean nothing to the
// gateway and that no rule of the policy reads, with where they are: most likely
// they are misspelt. Rules name the keys that they read, because one that
// computes them would read itself, which does not compile.
func (p *Phase) UnreadData() map[string]gate.Rule {
	now := p.current.Load()
	if now == nil {
		return nil
	}
	read := dataReads(now.compiler)
	unread := map[string]gate.Rule{}
	for key := range now.compiled.data {
		if shapes[key] == nil && !read[key] {
			unread[key] = now.compiled.locate(key, "")
		}
	}
	return unread
}

// dataReads finds the keys of data that compiled modules read.
func dataReads(c *ast.Compiler) map[string]bool {
	keys := map[string]bool{}
	visitor := ast.NewGenericVisitor(func(x any) bool {
		if ref, ok := x.(ast.Ref); ok && len(ref) > 1 && ref[0].Equal(ast.DefaultRootDocument) {
			if key, ok := ref[1].Value.(ast.String); ok {
				keys[string(key)] = true
			}
		}
		return false
	})
	for _, m := range c.Modules {
		for _, rule := range m.Rules {
			visitor.Walk(rule)
		}
	}
	return keys
}

// locate finds where the data files have a name below a key; an empty name is
// the key itself.
func (c *compiled) locate(key, name string) gate.Rule {
	fallback := gate.Rule{File: c.origin[key], Text: cmp.Or(name, key)}
	for _, f := range c.source.files {
		base, ext, _ := strings.Cut(path.Base(f.name), ".")
		if base != "data" || ext == "rego" {
			continue
		}
		lines := strings.Split(string(f.data), "\n")
		at := 0
		if first, _, _ := strings.Cut(f.name, "/"); first != key { // a folder may be the key
			if at = slices.IndexFunc(lines, func(line string) bool { return mentions(line, key) }); at < 0 {
				continue
			}
		}
		if name == "" {
			return gate.Rule{File: f.show, Line: at + 1, Text: strings.TrimSpace(lines[at])}
		}
		for i := at; i < len(lines); i++ {
			if mentions(lines[i], name) {
				return gate.Rule{File: f.show, Line: i + 1, Text: strings.TrimSpace(lines[i])}
			}
		}
	}
	return fallback
}

// mentions tells whether a line has a name that is not a part of a longer one.
func mentions(line, name string) bool {
	part := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
	}
	for from := 0; ; {
		i := strings.Index(line[from:], name)
		if i < 0 || name == "" {
			return false
		}
		begin, end := from+i, from+i+len(name)
		if (begin == 0 || !part(line[begin-1])) && (end == len(line) || !part(line[end])) {
			return true
		}
		from = begin + 1
	}
}

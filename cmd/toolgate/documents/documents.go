// Package documents reads what other tool systems are configured with: files of rules
// about tools, and files of specifications of tools. They are taken whole, or every line
// that cannot be kept is named with what to write.
package documents

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/edit"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/native/declared"
)

// Kind is what a document holds.
type Kind string

// The kinds. Other is everything else, such as the file of a client.
const (
	Other       Kind = ""
	Rules       Kind = "rules"       // tools: { NAME: { ... } }
	Tools       Kind = "tools"       // tools: [ { ... } ], with what runs each
	Definitions Kind = "definitions" // a list of tools as a request to a model has it
)

// Of tells what a file holds. One that cannot be read is of kind Other.
func Of(path string) Kind {
	data, err := format.ReadFile(path)
	if err != nil {
		return Other
	}
	root, err := format.ParseDocument(path, data)
	if err != nil || root.Get("toolgate") != nil || !clients.Find(path, root).Empty() {
		return Other
	}
	if slices.ContainsFunc(entriesOf(root), declared.IsDefinition) {
		return Definitions
	}
	switch n := root.Get("tools"); {
	case n.IsMap():
		return Rules
	case n.IsList():
		return Tools
	}
	return Other
}

// Instead says what to do with a file that toolgate reads where it is, or another program
// loads; empty for every other file.
func Instead(path string) string {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".rego":
		return "a policy is read where it is: name its folder as toolgate.opa.path, and try it with toolgate policy check"
	case ".zed":
		return "a schema of SpiceDB is written to SpiceDB, with zed schema write; name the server as toolgate.spicedb.endpoint, and toolgate doctor says what its schema lacks"
	}
	return ""
}

// The actions for a rule.
const (
	New   = "new"
	There = "there already"
)

// Rule is a rule about a tool, and what is done with it.
type Rule struct {
	Name   string `json:"name"` // exposed name or glob
	File   string `json:"file"`
	Line   int    `json:"line"`
	Action string `json:"action"`
}

// section is where a configuration has rules by the name of a tool.
var section = []string{"toolgate", "governance", "tools"}

// AddRules adds the rules of a file to a configuration: its file name and text. Names get
// the prefix, if there is one. It returns the configuration with all of them, or an error
// that has every line which cannot be kept.
func AddRules(path, prefix, target string, before []byte) (rules []Rule, after []byte, err error) {
	data, err := format.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	p := &tree.Problems{File: path}
	root := format.Read(p, path, data)
	if root == nil {
		return nil, nil, p.Err()
	}
	into, err := format.ParseDocument(target, before)
	if err != nil {
		return nil, nil, err
	}
	for _, key := range section {
		into = into.Get(key)
	}
	var settings governance.Settings
	d := decode.New(p, "")
	d.Decode(root, &settings, "governance")
	settings.Check(p, root, "")
	after = before
	dir := filepath.Dir(path)
	for _, f := range root.Get("tools").Fields {
		rule := Rule{Name: prefix + f.Key, File: path, Line: f.Line, Action: New}
		entry := entryOf(f.Value, dir)
		if there := into.Get(rule.Name); there != nil {
			if rule.Action = There; !reflect.DeepEqual(entry, entryOf(there, filepath.Dir(target))) {
				p.AtField(f, tree.Join("tools", f.Key), "make the two one there, and take it out here", "%s has another rule for %s", target, rule.Name)
			}
		} else if len(p.List) == 0 {
			if after, err = edit.Set(target, after, section, rule.Name, entry); err != nil {
				return nil, nil, fmt.Errorf("add the rule for %s to %s: %w; write it yourself:\n%s", rule.Name, target, err, edit.Text(target, section, rule.Name, entry))
			}
		}
		rules = append(rules, rule)
	}
	if err := p.Err(); err != nil {
		return nil, nil, err
	}
	return rules, after, nil
}

// entryOf is a rule in our words, sorted by them. Relative paths are those of a folder.
func entryOf(n *tree.Node, dir string) edit.Map {
	entry := edit.Map{}
	if !n.IsMap() {
		return entry
	}
	for _, f := range n.Fields {
		key, v := f.Key, f.Value
		if setting, as, hint := new(governance.Tool).Synonym(key, v); hint == "" && setting != "" {
			key, v = setting, as
		}
		if v.IsNull() {
			continue
		}
		value := valueOf(v)
		if list, ok := value.([]string); ok && (key == "allowed_paths" || key == "forbidden_paths") {
			for i, path := range list {
				list[i] = absolute(path, dir, key == "allowed_paths")
			}
		}
		entry = append(entry, edit.Field{Key: key, Value: value})
	}
	slices.SortStableFunc(entry, func(a, b edit.Field) int { return strings.Compare(a.Key, b.Key) })
	return entry
}

// absolute is a path of a rule for a file in another folder. A bare name of a forbidden
// path matches anywhere and stays.
func absolute(path, dir string, bare bool) string {
	dotted := strings.HasPrefix(path, "./") || strings.HasPrefix(path, "../")
	if !dotted && (!bare || path == "" || strings.ContainsAny(path[:1], "/~$*") || filepath.IsAbs(path)) {
		return path
	}
	whole, err := filepath.Abs(filepath.Join(dir, path))
	if err != nil {
		return path
	}
	return filepath.ToSlash(whole)
}

// valueOf is a value as [edit.Map] has it.
func valueOf(n *tree.Node) any {
	switch n.Kind {
	case tree.KindBool:
		return n.Value == "true"
	case tree.KindNumber:
		if number, err := strconv.Atoi(n.Value); err == nil {
			return number
		}
	case tree.KindList:
		texts, maps := []string{}, []edit.Map{}
		for _, item := range n.Items {
			if item.IsMap() {
				maps = append(maps, mapOf(item))
				continue
			}
			texts = append(texts, item.Value)
		}
		if len(maps) > 0 {
			return maps
		}
		return texts
	case tree.KindMap:
		return mapOf(n)
	case tree.KindNull, tree.KindString:
	}
	return n.Value
}

func mapOf(n *tree.Node) edit.Map {
	m := edit.Map{}
	for _, f := range n.Fields {
		m = append(m, edit.Field{Key: f.Key, Value: valueOf(f.Value)})
	}
	return m
}

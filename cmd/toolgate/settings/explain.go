package settings

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/spelling"
)

// node is what an explanation needs of a JSON Schema.
type node struct {
	Description          string
	Type                 any
	Default              json.RawMessage
	Enum                 []any
	Properties           map[string]*node
	AdditionalProperties json.RawMessage
	Items                *node
	AnyOf                []*node
}

// below returns the settings below one, by name. The name of one that a person chooses is
// NAME.
func (n *node) below() map[string]*node {
	out := maps.Clone(n.Properties)
	if out == nil {
		out = map[string]*node{}
	}
	var each node
	if json.Unmarshal(n.AdditionalProperties, &each) == nil && len(n.AdditionalProperties) > 0 && n.AdditionalProperties[0] == '{' {
		out["NAME"] = &each
	}
	if n.Items != nil {
		maps.Copy(out, n.Items.below())
	}
	for _, one := range n.AnyOf {
		maps.Copy(out, one.below())
	}
	return out
}

// Explain writes what a setting means, its type and its default, and the names of those
// below it. path is as in `config show`: listen.http. Any name stands for one that a
// person chooses.
func Explain(w io.Writer, path string) error {
	at, err := find(path)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, path)
	if kind := kindOf(at); kind != "" {
		fmt.Fprintf(w, "  type     %s\n", kind)
	}
	if len(at.Enum) > 0 {
		fmt.Fprintf(w, "  values   %s\n", strings.Trim(fmt.Sprint(at.Enum), "[]"))
	}
	if len(at.Default) > 0 {
		fmt.Fprintf(w, "  default  %s\n", at.Default)
	}
	if at.Description != "" {
		fmt.Fprintf(w, "\n%s\n", at.Description)
	}
	names := at.below()
	if len(names) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nBelow it:")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		text, _, _ := strings.Cut(names[name].Description, ". ")
		fmt.Fprintf(w, "  %-22s %s\n", name, strings.TrimSuffix(text, "."))
	}
	return nil
}

// find returns the node of a path.
func find(path string) (*node, error) {
	var root struct{ Properties map[string]*node }
	if err := json.Unmarshal(config.Schema(), &root); err != nil {
		return nil, fmt.Errorf("read the schema of the file: %w", err)
	}
	at, seen := root.Properties["toolgate"], ""
	if path == "" || path == "toolgate" {
		return at, nil
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "toolgate."), ".") {
		name = strings.TrimSuffix(name, "[]")
		names := at.below()
		next := names[name]
		if next == nil {
			next = names["NAME"]
		}
		if next == nil {
			hint := "see `toolgate config explain " + seen + "`"
			if seen == "" {
				hint = "see docs/configuration.md"
			}
			for _, known := range slices.Sorted(maps.Keys(names)) {
				if spelling.Misspelt(name, known) {
					hint = fmt.Sprintf("did you mean %s?", strings.TrimPrefix(seen+"."+known, "."))
					break
				}
			}
			return nil, failure.Newf(failure.Usage, "there is no setting %s; %s", path, hint)
		}
		at, seen = next, strings.TrimPrefix(seen+"."+name, ".")
	}
	return at, nil
}

// kindOf names the type of a setting.
func kindOf(n *node) string {
	switch t := n.Type.(type) {
	case string:
		return t
	case []any:
		var all []string
		for _, one := range t {
			all = append(all, fmt.Sprint(one))
		}
		return strings.Join(all, " or ")
	}
	var all []string
	for _, one := range n.AnyOf {
		if kind := kindOf(one); kind != "" && !slices.Contains(all, kind) {
			all = append(all, kind)
		}
	}
	return strings.Join(all, " or ")
}

// Names returns the paths of settings that begin with a text, for the shell.
func Names(begun string) []string {
	parent := ""
	if i := strings.LastIndexByte(begun, '.'); i >= 0 {
		parent = begun[:i+1]
	}
	at, err := find(strings.TrimSuffix(parent, "."))
	if err != nil {
		return nil
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(at.below())) {
		if full := parent + name; name != "NAME" && strings.HasPrefix(full, begun) {
			out = append(out, full)
		}
	}
	return out
}

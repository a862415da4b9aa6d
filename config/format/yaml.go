package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/toolgate/toolgate/config/tree"
)

// parseYAML reads one YAML document. The library's tree keeps aliases as
// pointers; they are followed here, counted, and refused where they form a
// cycle, so that a small file cannot become a large tree.
func parseYAML(data []byte) (root *tree.Node, err error) {
	defer func() {
		// The library reports some malformed input by panicking.
		if r := recover(); r != nil {
			root, err = nil, &syntaxError{line: 1, problem: fmt.Sprintf("the YAML cannot be read: %v", r)}
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return &tree.Node{Kind: tree.KindMap, Line: 1, Column: 1}, nil
		}
		return nil, yamlSyntax(data, err)
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, yamlSyntax(data, err)
	default:
		return nil, &syntaxError{
			line: second.Line, column: second.Column,
			problem: "a second YAML document begins here", hint: "keep one document in one file",
		}
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return &tree.Node{Kind: tree.KindMap, Line: 1, Column: 1}, nil
	}
	b := &yamlBuilder{}
	root, err = b.build(doc.Content[0], 0)
	if err != nil {
		return nil, err
	}
	if root.Kind == tree.KindNull {
		root = &tree.Node{Kind: tree.KindMap, Line: 1, Column: 1}
	}
	return root, nil
}

type yamlBuilder struct {
	nodes int
	open  []*yaml.Node // the anchors being expanded, to find cycles
}

func (b *yamlBuilder) build(y *yaml.Node, depth int) (*tree.Node, error) {
	if b.nodes++; b.nodes > MaxNodes {
		return nil, tooMany(y.Line, y.Column, MaxNodes)
	}
	if depth > MaxDepth {
		return nil, tooDeep(y.Line, y.Column)
	}
	n := &tree.Node{Line: y.Line, Column: y.Column}
	switch y.Kind {
	case yaml.AliasNode:
		if slices.Contains(b.open, y.Alias) {
			return nil, &syntaxError{line: y.Line, column: y.Column, problem: fmt.Sprintf("the alias *%s contains itself", y.Value)}
		}
		if y.Alias == nil {
			return nil, &syntaxError{line: y.Line, column: y.Column, problem: fmt.Sprintf("the alias *%s names nothing", y.Value)}
		}
		b.open = append(b.open, y.Alias)
		v, err := b.build(y.Alias, depth+1)
		b.open = b.open[:len(b.open)-1]
		if err != nil {
			return nil, err
		}
		v.Line, v.Column = y.Line, y.Column
		return v, nil
	case yaml.ScalarNode:
		return n, yamlScalar(n, y)
	case yaml.SequenceNode:
		n.Kind = tree.KindList
		b.open = append(b.open, y)
		for _, c := range y.Content {
			v, err := b.build(c, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, v)
		}
		b.open = b.open[:len(b.open)-1]
		return n, nil
	case yaml.MappingNode:
		b.open = append(b.open, y)
		err := b.mapping(n, y, depth)
		b.open = b.open[:len(b.open)-1]
		return n, err
	default:
		return nil, &syntaxError{line: y.Line, column: y.Column, problem: "this is not valid YAML"}
	}
}

func (b *yamlBuilder) mapping(n *tree.Node, y *yaml.Node, depth int) error {
	n.Kind = tree.KindMap
	seen := map[string]int{}
	var merges []*yaml.Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		k, v := y.Content[i], y.Content[i+1]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k == nil || k.Kind != yaml.ScalarNode {
			return &syntaxError{line: y.Content[i].Line, column: y.Content[i].Column, problem: "a key must be plain text"}
		}
		if k.ShortTag() == "!!merge" {
			merges = append(merges, v)
			continue
		}
		line, col := y.Content[i].Line, y.Content[i].Column
		if first, dup := seen[k.Value]; dup {
			return duplicateKey(k.Value, line, col, first)
		}
		seen[k.Value] = line
		val, err := b.build(v, depth+1)
		if err != nil {
			return under(k.Value, err)
		}
		n.Fields = append(n.Fields, tree.Field{Key: k.Value, Line: line, Column: col, Value: val})
	}
	// "<<" fills in what the map does not say itself; of several the first wins.
	for _, m := range merges {
		src, err := b.build(m, depth+1)
		if err != nil {
			return err
		}
		sources := []*tree.Node{src}
		if src.Kind == tree.KindList {
			sources = src.Items
		}
		for _, s := range sources {
			if s.Kind != tree.KindMap {
				return &syntaxError{line: m.Line, column: m.Column, problem: "<< must name a map or a list of maps"}
			}
			for _, f := range s.Fields {
				if _, have := seen[f.Key]; !have {
					seen[f.Key] = f.Line
					n.Fields = append(n.Fields, f)
				}
			}
		}
	}
	return nil
}

func yamlScalar(n *tree.Node, y *yaml.Node) error {
	switch tag := y.ShortTag(); tag {
	case "!!null":
		n.Kind = tree.KindNull
	case "!!bool":
		n.Kind, n.Value = tree.KindBool, strings.ToLower(y.Value)
		if n.Value != "true" && n.Value != "false" {
			return &syntaxError{line: y.Line, column: y.Column, problem: fmt.Sprintf("%q is not true or false", y.Value), hint: "write true or false"}
		}
	case "!!int", "!!float":
		n.Kind, n.Value = tree.KindNumber, y.Value
	case "!!str", "!!timestamp":
		n.Kind, n.Value = tree.KindString, y.Value
	default:
		return &syntaxError{line: y.Line, column: y.Column, problem: fmt.Sprintf("the YAML tag %s is not known here", tag), hint: "write a plain value"}
	}
	return nil
}

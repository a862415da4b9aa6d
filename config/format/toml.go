package format

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/toolgate/toolgate/config/tree"
)

// parseTOML reads a TOML document with the library's expression parser, which
// knows positions; the library's decoder then has the last word on what it
// takes for valid, so that its finer rules about tables are not repeated here.
func parseTOML(data []byte) (root *tree.Node, err error) {
	defer func() {
		// The expression parser is documented as liable to panic.
		if r := recover(); r != nil {
			root, err = nil, &syntaxError{line: 1, problem: fmt.Sprintf("the TOML cannot be read: %v", r)}
		}
	}()
	b := &tomlBuilder{where: newPositions(data), root: &tree.Node{Kind: tree.KindMap, Line: 1, Column: 1}, made: map[*tree.Node]tomlTableKind{}, index: map[*tree.Node]map[string]int{}}
	b.table = b.root
	b.parser.Reset(data)
	for b.parser.NextExpression() {
		if err := b.expression(b.parser.Expression()); err != nil {
			return nil, err
		}
	}
	if err := b.parser.Error(); err != nil {
		if pe, ok := errors.AsType[*unstable.ParserError](err); ok {
			line, col := 1, 1
			if len(pe.Highlight) > 0 {
				line, col = b.where.at(int(b.parser.Range(pe.Highlight).Offset))
			}
			return nil, malformed("TOML", tomlRemedies, line, col, pe.Message)
		}
		return nil, malformed("TOML", tomlRemedies, 1, 1, err.Error())
	}
	var discard map[string]any
	if err := toml.Unmarshal(data, &discard); err != nil {
		if de, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, col := de.Position()
			return nil, malformed("TOML", tomlRemedies, line, col, strings.TrimPrefix(de.Error(), "toml: "))
		}
		return nil, malformed("TOML", tomlRemedies, 1, 1, strings.TrimPrefix(err.Error(), "toml: "))
	}
	return b.root, nil
}

// tomlTableKind says how a map came about, which decides what may be added.
type tomlTableKind uint8

const (
	tomlImplicit tomlTableKind = iota // by being the parent of something
	tomlHeader                        // by its own [header]
	tomlElement                       // by a [[header]]
	tomlInline                        // as { ... }
)

type tomlBuilder struct {
	parser unstable.Parser
	where  positions
	root   *tree.Node
	table  *tree.Node // the one that key-value lines add to
	path   string     // of that table
	made   map[*tree.Node]tomlTableKind
	index  map[*tree.Node]map[string]int // the place of each key in Fields
	nodes  int
}

func (b *tomlBuilder) pos(n *unstable.Node) (line, column int) {
	if n.Raw.Length == 0 && n.Raw.Offset == 0 && len(n.Data) > 0 {
		return b.where.at(int(b.parser.Range(n.Data).Offset))
	}
	return b.where.at(int(n.Raw.Offset))
}

func (b *tomlBuilder) expression(e *unstable.Node) error {
	switch e.Kind {
	case unstable.Table, unstable.ArrayTable:
		return b.header(e)
	case unstable.KeyValue:
		return under(b.path, b.keyValue(b.table, e, 1))
	default:
		return nil // a comment
	}
}

type tomlKey struct {
	name         string
	line, column int
}

func (b *tomlBuilder) keys(it unstable.Iterator) []tomlKey {
	var keys []tomlKey
	for it.Next() {
		k := it.Node()
		line, col := b.pos(k)
		keys = append(keys, tomlKey{string(k.Data), line, col})
	}
	return keys
}

func (b *tomlBuilder) header(e *unstable.Node) error {
	keys := b.keys(e.Key())
	if len(keys) > MaxDepth {
		return tooDeep(keys[0].line, keys[0].column)
	}
	b.path = ""
	for _, k := range keys {
		b.path = tree.Join(b.path, k.name)
	}
	parent, err := b.descend(b.root, keys[:len(keys)-1])
	if err != nil {
		return err
	}
	last := keys[len(keys)-1]
	have := b.field(parent, last.name)
	if e.Kind == unstable.ArrayTable {
		if have == nil {
			if have, err = b.add(parent, last, &tree.Node{Kind: tree.KindList, Line: last.line, Column: last.column}); err != nil {
				return err
			}
		} else if have.Value.Kind != tree.KindList {
			return duplicateKey(b.path, last.line, last.column, have.Line)
		}
		item := &tree.Node{Kind: tree.KindMap, Line: last.line, Column: last.column}
		if err := b.count(item); err != nil {
			return err
		}
		have.Value.Items = append(have.Value.Items, item)
		b.made[item] = tomlElement
		b.table = item
		return nil
	}
	if have == nil {
		if have, err = b.add(parent, last, &tree.Node{Kind: tree.KindMap, Line: last.line, Column: last.column}); err != nil {
			return err
		}
	} else if have.Value.Kind != tree.KindMap || b.made[have.Value] != tomlImplicit {
		return duplicateKey(b.path, last.line, last.column, have.Line)
	}
	b.made[have.Value] = tomlHeader
	b.table = have.Value
	return nil
}

// descend follows and creates parents; the parent of an array of tables is its
// last element.
func (b *tomlBuilder) descend(n *tree.Node, keys []tomlKey) (*tree.Node, error) {
	for _, k := range keys {
		f := b.field(n, k.name)
		if f == nil {
			var err error
			if f, err = b.add(n, k, &tree.Node{Kind: tree.KindMap, Line: k.line, Column: k.column}); err != nil {
				return nil, err
			}
		}
		v := f.Value
		if v.Kind == tree.KindList && len(v.Items) > 0 {
			v = v.Items[len(v.Items)-1]
		}
		if v.Kind != tree.KindMap || b.made[v] == tomlInline {
			return nil, duplicateKey(k.name, k.line, k.column, f.Line)
		}
		n = v
	}
	return n, nil
}

func (b *tomlBuilder) keyValue(into *tree.Node, e *unstable.Node, depth int) error {
	keys := b.keys(e.Key())
	if depth+len(keys) > MaxDepth {
		return tooDeep(keys[0].line, keys[0].column)
	}
	parent, err := b.descend(into, keys[:len(keys)-1])
	if err != nil {
		return err
	}
	last := keys[len(keys)-1]
	if f := b.field(parent, last.name); f != nil {
		return duplicateKey(last.name, last.line, last.column, f.Line)
	}
	v, err := b.value(e.Value(), last, depth+len(keys))
	if err != nil {
		return err
	}
	_, err = b.add(parent, last, v)
	return err
}

func (b *tomlBuilder) value(e *unstable.Node, key tomlKey, depth int) (*tree.Node, error) {
	if depth > MaxDepth {
		return nil, tooDeep(key.line, key.column)
	}
	n := &tree.Node{Line: key.line, Column: key.column}
	if e.Raw.Length > 0 {
		n.Line, n.Column = b.where.at(int(e.Raw.Offset))
	}
	switch e.Kind {
	case unstable.String, unstable.DateTime, unstable.LocalDate, unstable.LocalDateTime, unstable.LocalTime:
		n.Kind, n.Value = tree.KindString, string(e.Data)
	case unstable.Bool:
		n.Kind, n.Value = tree.KindBool, string(e.Data)
	case unstable.Integer, unstable.Float:
		n.Kind, n.Value = tree.KindNumber, string(e.Data)
	case unstable.Array:
		n.Kind = tree.KindList
		for it := e.Children(); it.Next(); {
			item, err := b.value(it.Node(), key, depth+1)
			if err != nil {
				return nil, err
			}
			if err := b.count(item); err != nil {
				return nil, err
			}
			n.Items = append(n.Items, item)
		}
	case unstable.InlineTable:
		n.Kind = tree.KindMap
		for it := e.Children(); it.Next(); {
			if err := b.keyValue(n, it.Node(), depth+1); err != nil {
				return nil, err
			}
		}
		b.made[n] = tomlInline
	default:
		return nil, &syntaxError{line: key.line, column: key.column, key: key.name, problem: "this is not valid TOML"}
	}
	return n, nil
}

func (b *tomlBuilder) add(n *tree.Node, k tomlKey, v *tree.Node) (*tree.Field, error) {
	if err := b.count(v); err != nil {
		return nil, err
	}
	if b.index[n] == nil {
		b.index[n] = map[string]int{}
	}
	b.index[n][k.name] = len(n.Fields)
	n.Fields = append(n.Fields, tree.Field{Key: k.name, Line: k.line, Column: k.column, Value: v})
	return &n.Fields[len(n.Fields)-1], nil
}

func (b *tomlBuilder) count(n *tree.Node) error {
	if b.nodes++; b.nodes > MaxTOMLNodes {
		return tooMany(n.Line, n.Column, MaxTOMLNodes)
	}
	return nil
}

// field returns the entry of a key. The pointer holds until the next add.
func (b *tomlBuilder) field(n *tree.Node, key string) *tree.Field {
	if i, ok := b.index[n][key]; ok {
		return &n.Fields[i]
	}
	return nil
}

// Package tree is what every format of a file is read into: values that know the
// file's lines, where a flag or a variable took their place, and the faults that
// are told to the person who wrote them.
package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// Kind is the type of a [Node].
type Kind uint8

// The kinds of node. The zero Kind is no kind at all.
const (
	KindNull Kind = iota + 1
	KindBool
	KindNumber
	KindString
	KindList
	KindMap
)

// String names the kind as a message to a person does.
func (k Kind) String() string {
	switch k {
	case KindNull:
		return "null"
	case KindBool:
		return "true or false"
	case KindNumber:
		return "a number"
	case KindString:
		return "a string"
	case KindList:
		return "a list"
	case KindMap:
		return "a map"
	default:
		return "nothing"
	}
}

// Node is one value of a document and where it stands. A tree of nodes is the
// same for every format; it is not changed once parsed and may be read by any
// number of goroutines.
type Node struct {
	Kind Kind
	// Value is the text of a scalar: the contents of a string, "true" or
	// "false", or a number exactly as written (so a 64-bit id and 0x1F keep
	// every digit). It is empty for null, lists and maps.
	Value string
	// Fields are the entries of a map in file order, keys unique.
	Fields []Field
	// Items are the elements of a list.
	Items []*Node
	// Line and Column are where the value begins, from 1; the column counts
	// bytes. Both are 0 for a value that stands in no file.
	Line, Column int

	// Origin is set on values laid over the file by a flag or a variable.
	Origin *Origin
}

// Field is one entry of a map node.
type Field struct {
	Key          string
	Line, Column int // of the key
	Value        *Node
}

// Get returns the value of a key, or nil where n is nil, no map, or has no such
// key.
func (n *Node) Get(key string) *Node {
	if n == nil || n.Kind != KindMap {
		return nil
	}
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			return n.Fields[i].Value
		}
	}
	return nil
}

// IsMap and isList accept nil.
func (n *Node) IsMap() bool  { return n != nil && n.Kind == KindMap }
func (n *Node) IsList() bool { return n != nil && n.Kind == KindList }

// IsNull reports a key that is absent or written without a value, which mean
// the same everywhere in this package.
func (n *Node) IsNull() bool { return n == nil || n.Kind == KindNull }

// Item is the i-th element of a list, or nil.
func (n *Node) Item(i int) *Node {
	if !n.IsList() || i >= len(n.Items) {
		return nil
	}
	return n.Items[i]
}

// OrItem is the i-th element of a list, or what is written in the place of a
// list of one.
func (n *Node) OrItem(i int) *Node {
	if n.IsList() {
		return n.Item(i)
	}
	return n
}

// ByKey indexes a map, for loops over all of it. It is nil where n is no map.
func (n *Node) ByKey() map[string]Field {
	if !n.IsMap() {
		return nil
	}
	out := make(map[string]Field, len(n.Fields))
	for _, f := range n.Fields {
		out[f.Key] = f
	}
	return out
}

// Describe shows a scalar and its kind, short.
func (n *Node) Describe() string {
	switch n.Kind {
	case KindString:
		return fmt.Sprintf("the text %.40q", n.Value)
	case KindNumber, KindBool:
		return fmt.Sprintf("%.40s", n.Value)
	default:
		return n.Kind.String()
	}
}

// JSON renders the node as JSON: keys in file order, numbers as they were
// written wherever JSON can spell them, else in decimal. It fails on numbers
// JSON has no spelling for (infinities, NaN).
func (n *Node) JSON() (json.RawMessage, error) {
	var b bytes.Buffer
	if err := n.appendJSON(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (n *Node) appendJSON(b *bytes.Buffer) error {
	if n == nil {
		b.WriteString("null")
		return nil
	}
	switch n.Kind {
	case KindBool:
		b.WriteString(n.Value)
	case KindNumber:
		num, err := jsonNumber(n.Value)
		if err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		b.WriteString(num)
	case KindString:
		appendJSONString(b, n.Value)
	case KindList:
		b.WriteByte('[')
		for i, item := range n.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := item.appendJSON(b); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case KindMap:
		b.WriteByte('{')
		for i, f := range n.Fields {
			if i > 0 {
				b.WriteByte(',')
			}
			appendJSONString(b, f.Key)
			b.WriteByte(':')
			if err := f.Value.appendJSON(b); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	default:
		b.WriteString("null")
	}
	return nil
}

func appendJSONString(b *bytes.Buffer, s string) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)       // a string always encodes, into a buffer always
	b.Truncate(b.Len() - 1) // the newline that Encode adds
}

// jsonNumber spells a YAML or TOML number as JSON does.
func jsonNumber(raw string) (string, error) {
	if json.Valid([]byte(raw)) {
		return raw, nil
	}
	s := strings.TrimPrefix(strings.ReplaceAll(raw, "_", ""), "+")
	if i, ok := ParseInteger(s); ok {
		return i.String(), nil
	}
	if f, ok := decimalFloat(s); ok {
		return f, nil
	}
	return "", fmt.Errorf("the number %s cannot be written in JSON", raw)
}

// maxDigits bounds the length of a number that is converted from one base to
// another, because that takes time quadratic in its length.
const maxDigits = 1000

// ParseInteger reads the integers of YAML and TOML: decimal, 0x, 0o and 0b.
// A leading zero without a letter is decimal.
func ParseInteger(s string) (*big.Int, bool) {
	if len(s) > maxDigits {
		return nil, false
	}
	body, neg := strings.CutPrefix(s, "-")
	base := 10
	if len(body) > 2 && body[0] == '0' {
		switch body[1] {
		case 'x', 'X':
			base, body = 16, body[2:]
		case 'o', 'O':
			base, body = 8, body[2:]
		case 'b', 'B':
			base, body = 2, body[2:]
		}
	}
	if body == "" || body[0] == '-' || body[0] == '+' {
		return nil, false
	}
	i, ok := new(big.Int).SetString(body, base)
	if ok && neg {
		i.Neg(i)
	}
	return i, ok
}

// decimalFloat completes a float such as ".5" or "5." to what JSON accepts,
// without changing a digit.
func decimalFloat(s string) (string, bool) {
	sign := ""
	if rest, neg := strings.CutPrefix(s, "-"); neg {
		sign, s = "-", rest
	}
	mantissa, exp := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exp = s[:i], s[i:]
	}
	whole, frac, dotted := strings.Cut(mantissa, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	out := sign + whole
	if dotted && frac != "" {
		out += "." + frac
	}
	out += exp
	return out, json.Valid([]byte(out))
}

// Join is the path of a key below another path. Either may be empty.
func Join(path, key string) string {
	switch {
	case path == "":
		return key
	case key == "":
		return path
	}
	return path + "." + key
}

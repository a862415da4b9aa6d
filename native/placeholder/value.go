package placeholder

import (
	"fmt"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Whole is the name of a place for all arguments.
const Whole = "*"

// Value is a JSON value with places: a string that is one place becomes the
// argument itself, of whatever type and as it was written; places within a longer
// string become text. A member or element whose argument is missing is left out.
type Value struct {
	raw     []byte // of what has no places
	text    Text   // of a string with places
	members []member
	items   []Value
	kind    byte // '{', '[', '"' or 0 for raw
}

type member struct {
	key   []byte // quoted
	value Value
}

// maxNesting bounds how deep a value may nest.
const maxNesting = 32

// ParseValue reads a validated JSON value.
func ParseValue(raw []byte) (Value, error) { return parseValue(raw, 0) }

func parseValue(raw []byte, depth int) (Value, error) {
	if depth > maxNesting {
		return Value{}, fmt.Errorf("the value nests deeper than %d", maxNesting)
	}
	if len(raw) == 0 {
		return Value{}, fmt.Errorf("the value is empty")
	}
	out := Value{kind: raw[0]}
	switch raw[0] {
	case '{':
		for m := range mcp.Members(raw) {
			key, err := mcp.Unquote(m.Key(raw))
			if err != nil {
				return Value{}, err
			}
			value, err := parseValue(m.Value.Of(raw), depth+1)
			if err != nil {
				return Value{}, err
			}
			out.members = append(out.members, member{mcp.Quote(key), value})
		}
	case '[':
		for e := range mcp.Elements(raw) {
			item, err := parseValue(e.Of(raw), depth+1)
			if err != nil {
				return Value{}, err
			}
			out.items = append(out.items, item)
		}
	case '"':
		text, err := mcp.Unquote(raw)
		if err != nil {
			return Value{}, err
		}
		if out.text, err = ParseText(text); err != nil {
			return Value{}, err
		}
	default:
		out.kind, out.raw = 0, raw
	}
	return out, nil
}

// Names returns the names of the places.
func (b *Value) Names() []string {
	out := b.text.Names()
	for i := range b.members {
		out = append(out, b.members[i].value.Names()...)
	}
	for i := range b.items {
		out = append(out, b.items[i].Names()...)
	}
	return out
}

// Append appends the value with arguments in its places; there is none where ok
// is false.
func (b *Value) Append(dst []byte, v Values, args []byte) (out []byte, ok bool, err error) {
	switch b.kind {
	case 0:
		return append(dst, b.raw...), true, nil
	case '"':
		return b.appendText(dst, v, args)
	}
	out = append(dst, b.kind)
	first := true
	add := func(key []byte, value *Value) error {
		at := len(out)
		next := out
		if !first {
			next = append(next, ',')
		}
		if key != nil {
			next = append(append(next, key...), ':')
		}
		next, there, err := value.Append(next, v, args)
		if err != nil || !there {
			out = out[:at]
			return err
		}
		out, first = next, false
		return nil
	}
	for i := range b.members {
		if err := add(b.members[i].key, &b.members[i].value); err != nil {
			return nil, false, err
		}
	}
	for i := range b.items {
		if err := add(nil, &b.items[i]); err != nil {
			return nil, false, err
		}
	}
	return append(out, b.kind+2), true, nil // ] and } are two after [ and {
}

func (b *Value) appendText(dst []byte, v Values, args []byte) (out []byte, ok bool, err error) {
	if name, alone := b.text.Alone(); alone {
		if name == Whole {
			return append(dst, args...), true, nil
		}
		raw, there := v[name]
		return append(dst, raw...), there, nil
	}
	text, err := b.text.Fill(v)
	return mcp.AppendQuote(dst, text), true, err
}

package declared

import (
	"fmt"

	"github.com/toolgate/toolgate/internal/mcp"
)

// whole is the name of a place for all arguments.
const whole = "*"

// body is a JSON value with places: a string that is one place becomes the
// argument itself, of whatever type and as it was written; places within a longer
// string become text. A member or element whose argument is missing is left out.
type body struct {
	raw     []byte   // of what has no places
	text    template // of a string with places
	members []member
	items   []body
	kind    byte // '{', '[', '"' or 0 for raw
}

type member struct {
	key   []byte // quoted
	value body
}

// maxNesting bounds how deep a body may nest.
const maxNesting = 32

func parseBody(raw []byte, depth int) (body, error) {
	if depth > maxNesting {
		return body{}, fmt.Errorf("the body nests deeper than %d", maxNesting)
	}
	if len(raw) == 0 {
		return body{}, fmt.Errorf("the body is empty")
	}
	out := body{kind: raw[0]}
	switch raw[0] {
	case '{':
		for m := range mcp.Members(raw) {
			key, err := mcp.Unquote(m.Key(raw))
			if err != nil {
				return body{}, err
			}
			value, err := parseBody(m.Value.Of(raw), depth+1)
			if err != nil {
				return body{}, err
			}
			out.members = append(out.members, member{mcp.Quote(key), value})
		}
	case '[':
		for e := range mcp.Elements(raw) {
			item, err := parseBody(e.Of(raw), depth+1)
			if err != nil {
				return body{}, err
			}
			out.items = append(out.items, item)
		}
	case '"':
		text, err := mcp.Unquote(raw)
		if err != nil {
			return body{}, err
		}
		if out.text, err = parseTemplate(text); err != nil {
			return body{}, err
		}
	default:
		out.kind, out.raw = 0, raw
	}
	return out, nil
}

func (b *body) names() []string {
	out := b.text.names()
	for i := range b.members {
		out = append(out, b.members[i].value.names()...)
	}
	for i := range b.items {
		out = append(out, b.items[i].names()...)
	}
	return out
}

// append appends the value with arguments in its places; there is none where ok
// is false.
func (b *body) append(dst []byte, v values, args []byte) (out []byte, ok bool, err error) {
	switch b.kind {
	case 0:
		return append(dst, b.raw...), true, nil
	case '"':
		return b.appendText(dst, v, args)
	}
	out = append(dst, b.kind)
	first := true
	add := func(key []byte, value *body) error {
		at := len(out)
		next := out
		if !first {
			next = append(next, ',')
		}
		if key != nil {
			next = append(append(next, key...), ':')
		}
		next, there, err := value.append(next, v, args)
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

func (b *body) appendText(dst []byte, v values, args []byte) (out []byte, ok bool, err error) {
	if name, alone := b.text.alone(); alone {
		if name == whole {
			return append(dst, args...), true, nil
		}
		raw, there := v[name]
		return append(dst, raw...), there, nil
	}
	text, err := b.text.fill(v)
	return mcp.AppendQuote(dst, text), true, err
}

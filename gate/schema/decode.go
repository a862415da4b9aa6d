package schema

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// refusal is why a JSON text is refused, and where in it.
type refusal struct {
	pointer string
	reason  string
}

func (r *refusal) Error() string { return r.reason }

var errTooMany = errors.New("too many values")

// decoder converts validated JSON into the library's values: map[string]any, []any,
// string, [json.Number], bool and nil.
type decoder struct {
	mcp.Lexer
	left int            // values still allowed
	room map[string]any // an empty one for the first object; nil for a new one
	path []step         // to the current value
}

// step is a key, or an index.
type step struct {
	key   string
	index int // from 1 on; 0 for a key
}

// decode reads one value with at most most values in it. The text must have passed
// [mcp.Validate], which has checked depth, duplicate keys and trailing data.
// The first object, which is the value itself or within an array, lies in room unless that is nil.
func decode(text []byte, most int, room map[string]any) (value any, values int, err error) {
	d := decoder{Lexer: mcp.NewLexer(text), left: most, room: room}
	value, err = d.value()
	return value, most - d.left, err
}

func (d *decoder) value() (any, error) {
	if d.left--; d.left < 0 {
		return nil, errTooMany
	}
	switch d.Peek() {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return d.Text()
	case 't':
		d.Skip(len("true"))
		return true, nil
	case 'f':
		d.Skip(len("false"))
		return false, nil
	case 'n':
		d.Skip(len("null"))
		return nil, nil
	}
	return d.number()
}

func (d *decoder) object() (any, error) {
	object := d.room
	if d.room = nil; object == nil {
		object = map[string]any{}
	}
	d.Skip(1)
	for d.Peek() == '"' {
		key, err := d.Text()
		if err != nil {
			return nil, err
		}
		d.path = append(d.path, step{key: key})
		if object[key], err = d.value(); err != nil {
			return nil, err
		}
		d.path = d.path[:len(d.path)-1]
	}
	d.Skip(1)
	return object, nil
}

func (d *decoder) array() (any, error) {
	array := []any{}
	d.Skip(1)
	for c := d.Peek(); c != ']' && c != 0; c = d.Peek() {
		d.path = append(d.path, step{index: len(array) + 1})
		element, err := d.value()
		if err != nil {
			return nil, err
		}
		d.path = d.path[:len(d.path)-1]
		array = append(array, element)
	}
	d.Skip(1)
	return array, nil
}

func (d *decoder) number() (any, error) {
	number := d.Number()
	if !mcp.Computable(number) {
		return nil, &refusal{d.pointer(), "the number has more digits, or a larger exponent, than can be checked"}
	}
	return json.Number(number), nil
}

// pointer returns the JSON Pointer of the current value.
func (d *decoder) pointer() string {
	path := make([]string, len(d.path))
	for i, s := range d.path {
		if path[i] = s.key; s.index > 0 {
			path[i] = strconv.Itoa(s.index - 1)
		}
	}
	return pointerOf(path)
}

// pointerOf returns the JSON Pointer (RFC 6901) of a path of keys.
func pointerOf(path []string) string {
	var b strings.Builder
	for _, key := range path {
		b.WriteByte('/')
		b.WriteString(mcp.PointerToken(key))
	}
	return b.String()
}

// tokensOf splits a JSON Pointer into its keys; ok is false for an invalid one.
func tokensOf(pointer string) (tokens []string, ok bool) {
	if pointer == "" {
		return nil, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	tokens = strings.Split(pointer[1:], "/")
	for i, token := range tokens {
		for j := range len(token) {
			if token[j] == '~' && (j+1 == len(token) || token[j+1] != '0' && token[j+1] != '1') {
				return nil, false
			}
		}
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return tokens, true
}

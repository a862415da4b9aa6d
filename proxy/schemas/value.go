package schemas

import (
	"math/big"
	"slices"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Limits of the schemas that this package reads. They are those of the check of arguments.
const (
	maxBytes = 256 << 10
	maxDepth = 64
)

// value is a JSON value that keeps the order of members and the text of scalars.
type value struct {
	kind   byte     // one of { [ " t f n 0
	raw    []byte   // of a scalar, as it is written
	text   string   // of a string
	keys   []string // of an object, in order
	values []*value // of an object, by index of keys; or of an array

	pinned bool // a reference leads to it or to something in it

	index map[string]int // of keys, where there are many; nil after a change
	form  string         // see equalForm, once it is known
	exact *big.Rat       // see number, once it is known
}

// manyKeys is from how many members on an object has an index.
const manyKeys = 32

// indexed returns an object that no longer changes, with an index if it has many members.
func (v *value) indexed() *value {
	if len(v.keys) >= manyKeys {
		v.index = make(map[string]int, len(v.keys))
		for i, key := range v.keys {
			v.index[key] = i
		}
	}
	return v
}

// parse reads a schema or arguments; nil for what is not strict JSON within the limits.
func parse(text []byte, depth int) *value {
	if mcp.Validate(text, mcp.Limits{Depth: depth}) != nil {
		return nil
	}
	l := mcp.NewLexer(text)
	return read(&l)
}

func read(l *mcp.Lexer) *value {
	v := &value{kind: l.Peek()}
	switch v.kind {
	case '{':
		for l.Skip(1); l.Peek() == '"'; {
			key, err := l.Text()
			if err != nil {
				return v // not reached for a validated text
			}
			v.keys = append(v.keys, key)
			v.values = append(v.values, read(l))
		}
		l.Skip(1)
		v.indexed()
	case '[':
		l.Skip(1)
		for c := l.Peek(); c != ']' && c != 0; c = l.Peek() {
			v.values = append(v.values, read(l))
		}
		l.Skip(1)
	case '"':
		v.raw = l.RawText()
		v.text, _ = mcp.Unquote(v.raw)
	case 't', 'n':
		l.Skip(4)
		v.raw = literals[v.kind]
	case 'f':
		l.Skip(5)
		v.raw = literals[v.kind]
	default:
		v.kind = '0'
		v.raw = []byte(l.Number())
	}
	return v
}

var literals = map[byte][]byte{'t': []byte("true"), 'f': []byte("false"), 'n': []byte("null")}

// write appends the value without white space.
func (v *value) write(dst []byte) []byte {
	switch v.kind {
	case '{':
		dst = append(dst, '{')
		for i, key := range v.keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(mcp.AppendQuote(dst, key), ':')
			dst = v.values[i].write(dst)
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for i, e := range v.values {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.write(dst)
		}
		return append(dst, ']')
	}
	return append(dst, v.raw...)
}

// room returns how many of so many bytes are left behind the value, as write writes it;
// less than 0 if it needs more. It does not read on then.
func (v *value) room(left int) int {
	left -= len(v.raw)
	for i, e := range v.values {
		if left -= 1; v.kind == '{' {
			left -= len(v.keys[i]) + len(`"":`)
		}
		if left < 0 {
			break
		}
		left = e.room(left)
	}
	if v.kind == '{' || v.kind == '[' {
		left--
	}
	return left
}

// get returns a member of an object, nil when there is none or v is no object.
func (v *value) get(key string) *value {
	if v == nil || v.kind != '{' {
		return nil
	}
	if v.index != nil {
		if i, ok := v.index[key]; ok {
			return v.values[i]
		}
		return nil
	}
	if i := slices.Index(v.keys, key); i >= 0 {
		return v.values[i]
	}
	return nil
}

// set changes or adds a member.
func (v *value) set(key string, to *value) {
	if i := slices.Index(v.keys, key); i >= 0 {
		v.values[i] = to
		return
	}
	v.keys, v.values, v.index = append(v.keys, key), append(v.values, to), nil
}

// members returns the members of an object, none for another value.
func (v *value) members() ([]string, []*value) {
	if v == nil || v.kind != '{' {
		return nil, nil
	}
	return v.keys, v.values
}

// elements returns the elements of an array, none for another value.
func (v *value) elements() []*value {
	if v == nil || v.kind != '[' {
		return nil
	}
	return v.values
}

func (v *value) object() bool { return v != nil && v.kind == '{' }

// string returns the text of a string, and whether it is one.
func (v *value) string() (string, bool) {
	if v == nil || v.kind != '"' {
		return "", false
	}
	return v.text, true
}

// is tells whether the value is a string with this text.
func (v *value) is(text string) bool {
	s, ok := v.string()
	return ok && s == text
}

func textOf(s string) *value { return &value{kind: '"', raw: mcp.Quote(s), text: s} }

func listOf(values ...*value) *value { return &value{kind: '[', values: values} }

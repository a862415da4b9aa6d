package opa

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// shortest is the length from which on a string may be replaced, in bytes as
	// it is written.
	shortest = 1 << 10
	// maxValues bounds the values in the arguments that a policy is shown. One
	// takes some hundred bytes as the engine keeps it, and two as it is sent.
	maxValues = 100_000
	// manyMembers is the size from which on the keys of an object are held against
	// each other, and maxAlike how many of them may have one hash. The engine finds
	// keys by a hash without a secret and looks through all that have the same, so
	// that a caller who sends such keys would keep it busy for as long as they like.
	manyMembers, maxAlike = 32, 8
	// looksPerValues is how many values pass between two looks at the context.
	looksPerValues = 1 << 10
	// markSize is about the size of what a string is replaced by.
	markSize = 2*sha256.Size + len(`{"size":1000000000,"sha256":""}`)
)

// unshown is why a policy is not shown the arguments of a call, which therefore is
// denied. It is a reason for who calls, without its full stop.
type unshown struct{ reason string }

// Error implements error.
func (e *unshown) Error() string { return e.reason }

func hidden(format string, args ...any) error { return &unshown{fmt.Sprintf(format, args...)} }

// The reasons.
var (
	errManyValues = hidden("its arguments hold more than %d values, which is the most that a policy is shown", maxValues)
	errAlike      = hidden("its arguments have an object whose keys were chosen to keep the policy engine busy")
)

// shown returns the arguments of a call as a policy is shown them, with exact
// numbers. Where they are larger than the limit, their longest strings, as few as
// will do, are replaced by {"size": bytes, "sha256": "hex"}; replaced has their JSON
// pointers in the order of the text. With whole they are not: then a policy that
// does not look for such an object would judge less than is delivered.
//
// The arguments were checked by [mcp.Validate] before. What is refused is refused
// before anything is made of it that is larger than what is kept of it.
func (o *Options) shown(ctx context.Context, raw []byte, whole bool) (value ast.Value, replaced []string, err error) {
	if len(raw) == 0 {
		return ast.NewObject(), nil, nil
	}
	b, most := builder{Lexer: mcp.NewLexer(raw), ctx: ctx, left: maxValues}, int(o.PolicyInput)
	switch {
	case b.Peek() != '{':
		return nil, nil, errors.New("the arguments are not an object")
	case len(raw) > most && whole && o.URL != "":
		return nil, nil, hidden("its arguments have %d bytes, and a policy server is shown at most %d (limits.policy_input)", len(raw), most)
	case len(raw) > most && whole:
		return nil, nil, hidden("its arguments have %d bytes, and the policy is shown at most %d (limits.policy_input); "+
			"a policy that is to judge longer ones has to look at input.args_replaced", len(raw), most)
	case len(raw) > most:
		if b.replace, err = shorten(ctx, raw, most); err != nil {
			return nil, nil, err
		}
	}
	term, err := b.value()
	if err != nil {
		return nil, nil, fmt.Errorf("decode the arguments: %w", err)
	}
	return term.Value, b.replaced, nil
}

// longString is where a string is that may be replaced, and its length.
type longString struct{ at, length int }

// shorten returns where the strings are that have to be replaced for arguments to
// have at most limit bytes. It makes nothing of the arguments.
func shorten(ctx context.Context, raw []byte, limit int) (map[int]bool, error) {
	m := measure{builder: builder{Lexer: mcp.NewLexer(raw), ctx: ctx, left: maxValues}}
	if err := m.value(); err != nil {
		return nil, err
	}
	slices.SortFunc(m.long, func(a, b longString) int {
		return cmp.Or(cmp.Compare(b.length, a.length), cmp.Compare(a.at, b.at))
	})
	replace, size := map[int]bool{}, len(raw)
	for _, s := range m.long {
		if size <= limit {
			break
		}
		replace[s.at] = true
		size -= s.length - markSize
	}
	if size > limit {
		return nil, hidden("its arguments have %d bytes after their long strings were replaced, and the policy is shown at most %d (limits.policy_input)", size, limit)
	}
	return replace, nil
}

// measure finds the long strings of a text. It keeps nothing else.
type measure struct {
	builder
	long []longString
}

// value passes one value.
func (m *measure) value() error {
	if err := m.next(); err != nil {
		return err
	}
	switch m.Peek() {
	case '{':
		for m.Skip(1); m.Peek() == '"'; {
			m.RawText()
			if err := m.value(); err != nil {
				return err
			}
		}
		m.Skip(1)
	case '[':
		m.Skip(1)
		for c := m.Peek(); c != ']' && c != 0; c = m.Peek() {
			if err := m.value(); err != nil {
				return err
			}
		}
		m.Skip(1)
	case '"':
		if at, text := m.Offset(), m.RawText(); len(text) >= shortest {
			m.long = append(m.long, longString{at, len(text)})
		}
	case 't', 'n':
		m.Skip(len("true"))
	case 'f':
		m.Skip(len("false"))
	default:
		m.Number()
	}
	return nil
}

// builder makes values of the engine of a text.
type builder struct {
	mcp.Lexer
	ctx      context.Context
	left     int          // values that may still come
	replace  map[int]bool // where strings are that are not shown
	path     []string     // down to the value at hand, as parts of a JSON pointer; only with replace
	replaced []string
}

// next counts a value and tells whether it may be read.
func (b *builder) next() error {
	if b.left--; b.left < 0 {
		return errManyValues
	}
	if b.left%looksPerValues == 0 {
		return b.ctx.Err()
	}
	return nil
}

// value reads one value.
func (b *builder) value() (*ast.Term, error) {
	if err := b.next(); err != nil {
		return nil, err
	}
	switch b.Peek() {
	case '{':
		return b.object()
	case '[':
		return b.array()
	case '"':
		return b.text()
	case 't':
		b.Skip(len("true"))
		return ast.InternedTerm(true), nil
	case 'f':
		b.Skip(len("false"))
		return ast.InternedTerm(false), nil
	case 'n':
		b.Skip(len("null"))
		return ast.NullTerm(), nil
	}
	number := b.Number()
	if !mcp.Computable(number) { // the engine computes exactly, and nothing ends that
		return nil, fmt.Errorf("the number %.20s has more digits, or a larger exponent, than a policy is shown", number)
	}
	return ast.NumberTerm(json.Number(number)), nil
}

func (b *builder) object() (*ast.Term, error) {
	object := ast.NewObject()
	var alike map[int]int8 // keys by hash, but for the first
	for b.Skip(1); b.Peek() == '"'; {
		key, err := b.Text()
		if err != nil {
			return nil, err
		}
		name := ast.StringTerm(key)
		if object.Len() >= manyMembers {
			if alike == nil {
				alike = make(map[int]int8)
			}
			hash := KeyHash(key)
			if alike[hash]++; alike[hash] > maxAlike {
				return nil, errAlike
			}
		}
		value, err := b.inside(key, b.value)
		if err != nil {
			return nil, err
		}
		object.Insert(name, value)
	}
	b.Skip(1)
	return ast.NewTerm(object), nil
}

func (b *builder) array() (*ast.Term, error) {
	var elements []*ast.Term
	b.Skip(1)
	for c := b.Peek(); c != ']' && c != 0; c = b.Peek() {
		index := ""
		if b.replace != nil {
			index = strconv.Itoa(len(elements))
		}
		value, err := b.inside(index, b.value)
		if err != nil {
			return nil, err
		}
		elements = append(elements, value)
	}
	b.Skip(1)
	return ast.ArrayTerm(elements...), nil
}

// inside reads what is under a key or an index.
func (b *builder) inside(step string, read func() (*ast.Term, error)) (*ast.Term, error) {
	if b.replace == nil {
		return read()
	}
	b.path = append(b.path, step)
	value, err := read()
	b.path = b.path[:len(b.path)-1]
	return value, err
}

// text reads a string, or makes what is shown in its place.
func (b *builder) text() (*ast.Term, error) {
	gone := b.replace[b.Offset()]
	text, err := b.Text()
	if err != nil || !gone {
		return ast.StringTerm(text), err
	}
	var pointer strings.Builder
	for _, step := range b.path {
		pointer.WriteByte('/')
		pointer.WriteString(mcp.PointerToken(step))
	}
	b.replaced = append(b.replaced, pointer.String())
	sum := sha256.Sum256([]byte(text))
	return ast.ObjectTerm(
		ast.Item(ast.StringTerm("size"), ast.IntNumberTerm(len(text))),
		ast.Item(ast.StringTerm("sha256"), ast.StringTerm(hex.EncodeToString(sum[:]))),
	), nil
}

package redact

import (
	"bytes"
	"iter"
	"strconv"

	"github.com/toolgate/toolgate/internal/mcp"
)

// token is one string of a JSON value.
type token struct {
	mcp.Span      // with its quotes
	key      bool // names a member
	object   int  // of a key: number of its object, in order of appearance
}

func (t *token) of(value []byte) []byte { return t.Span.Of(value) }

// stringsIn yields the strings and keys of a validated JSON value, in order and in one
// pass, at any depth.
func stringsIn(value []byte) iter.Seq[token] {
	return func(yield func(token) bool) {
		var open []int // enclosing objects and arrays; 0 for an array
		objects := 0
		wantsKey := false
		for i := 0; i < len(value); {
			switch value[i] {
			case '"':
				end := endOfString(value, i)
				t := token{Span: mcp.Span{Start: i, End: end}, key: wantsKey}
				if wantsKey {
					t.object = open[len(open)-1]
				}
				if !yield(t) {
					return
				}
				i = end
				continue
			case '{':
				objects++
				open = append(open, objects)
				wantsKey = true
			case '[':
				open = append(open, 0)
				wantsKey = false
			case '}', ']':
				open = open[:max(len(open)-1, 0)]
				wantsKey = false
			case ':':
				wantsKey = false
			case ',':
				wantsKey = len(open) > 0 && open[len(open)-1] > 0
			}
			i++
		}
	}
}

// endOfString returns the index after the validated string that begins at i.
func endOfString(value []byte, i int) int {
	for i++; i < len(value); i++ {
		n := bytes.IndexByte(value[i:], '"')
		if n < 0 {
			return len(value)
		}
		i += n
		slashes := 0
		for j := i - 1; value[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
	return len(value)
}

// distinct numbers duplicate keys in the objects of a JSON value.
func distinct(value []byte) []byte {
	taken := map[int]map[string]bool{}
	var edits []mcp.Edit
	for s := range stringsIn(value) { // collect the existing keys first, so that no number collides with them
		if s.key {
			text, _ := mcp.Unquote(s.of(value))
			if taken[s.object] == nil {
				taken[s.object] = map[string]bool{}
			}
			taken[s.object][text] = false
		}
	}
	next := map[int]int{}
	for s := range stringsIn(value) {
		if !s.key {
			continue
		}
		text, _ := mcp.Unquote(s.of(value))
		of := taken[s.object]
		if !of[text] {
			of[text] = true
			continue
		}
		name := text
		for _, exists := of[name]; exists; _, exists = of[name] {
			next[s.object]++
			name = text + " " + strconv.Itoa(next[s.object]+1)
		}
		of[name] = true
		edits = append(edits, mcp.Edit{Span: s.Span, New: mcp.Quote(name)})
	}
	if len(edits) == 0 {
		return value
	}
	return mcp.Splice(value, edits...)
}

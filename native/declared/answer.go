package declared

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// path leads to a part of an answer. It is a JSON pointer (RFC 6901), such as
// /items/0/name, or names with dots after a $, such as $.items[*].name, where [*]
// is every element and makes a list of what it leads to.
type path []step

type step struct {
	name  string
	index int
	kind  stepKind
}

type stepKind int

const (
	byName  stepKind = iota
	byIndex          // written as one
	either           // of a pointer: a member of that name, or an element
	every
)

const (
	maxSteps = 32
	// maxEvery bounds how many [*] a path has.
	maxEvery = 3
)

func parsePath(text string) (path, error) {
	var out path
	switch {
	case text == "" || text == "$":
		return nil, nil
	case text[0] == '/':
		for token := range strings.SplitSeq(text[1:], "/") {
			s := step{name: mcp.PointerName(token), kind: either, index: -1}
			if n, err := strconv.Atoi(token); err == nil && n >= 0 {
				s.index = n
			}
			out = append(out, s)
		}
	case strings.HasPrefix(text, "$"):
		var err error
		if out, err = parseDots(text[1:]); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("the path %q is neither a pointer, as /items/0, nor one with dots, as $.items[0]", text)
	}
	all := 0
	for _, s := range out {
		if s.kind == every {
			all++
		}
	}
	if len(out) > maxSteps || all > maxEvery {
		return nil, fmt.Errorf("the path %q has more than %d steps, or more than %d [*]", text, maxSteps, maxEvery)
	}
	return out, nil
}

func parseDots(rest string) (path, error) {
	var out path
	for rest != "" {
		switch rest[0] {
		case '.':
			end := strings.IndexAny(rest[1:], ".[") + 1
			if end == 0 {
				end = len(rest)
			}
			if end == 1 {
				return nil, fmt.Errorf("the path has an empty name before %q", rest[1:])
			}
			out, rest = append(out, step{name: rest[1:end]}), rest[end:]
		case '[':
			inner, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				return nil, fmt.Errorf("the path has a [ without a ]")
			}
			rest = after
			switch n, err := strconv.Atoi(inner); {
			case inner == "*":
				out = append(out, step{kind: every})
			case err == nil && n >= 0:
				out = append(out, step{kind: byIndex, index: n})
			case len(inner) > 2 && (inner[0] == '\'' || inner[0] == '"') && inner[len(inner)-1] == inner[0]:
				out = append(out, step{name: inner[1 : len(inner)-1]})
			default:
				return nil, fmt.Errorf("the path has [%s], which is neither a number, nor a name in quotes, nor *", inner)
			}
		default:
			return nil, fmt.Errorf("the path goes on with %q; write . or [", rest)
		}
	}
	return out, nil
}

// of returns the part of a validated value, nil when it is not there.
func (p path) of(value []byte) []byte {
	for i, s := range p {
		if value == nil {
			return nil
		}
		if s.kind == every {
			if value[0] != '[' {
				return nil
			}
			out, first := []byte{'['}, true
			for e := range mcp.Elements(value) {
				part := p[i+1:].of(e.Of(value))
				if part == nil {
					continue
				}
				if !first {
					out = append(out, ',')
				}
				out, first = append(out, part...), false
			}
			return append(out, ']')
		}
		value = s.of(value)
	}
	return value
}

func (s step) of(value []byte) []byte {
	switch {
	case value[0] == '{' && s.kind != byIndex:
		return mcp.Lookup(value, s.name)
	case value[0] == '[' && s.kind != byName && s.index >= 0:
		n := 0
		for e := range mcp.Elements(value) {
			if n == s.index {
				return e.Of(value)
			}
			n++
		}
	}
	return nil
}

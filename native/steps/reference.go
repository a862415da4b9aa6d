package steps

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// reference is a place in the arguments of the tool, the answers of its steps, or the
// current element: a name and a JSON pointer (RFC 6901) into its value.
type reference struct {
	name   string
	tokens []string
}

// parseReference reads NAME or NAME/POINTER, as in a placeholder.
func parseReference(text string) (reference, error) {
	if strings.HasPrefix(text, "/") {
		return reference{}, fmt.Errorf("a placeholder begins with a name; write {%s}", strings.TrimLeft(text, "/"))
	}
	name, rest, deeper := strings.Cut(text, "/")
	r := reference{name: name}
	if !deeper {
		return r, nil
	}
	for token := range strings.SplitSeq(rest, "/") {
		plain := strings.NewReplacer("~1", "", "~0", "").Replace(token)
		if strings.Contains(plain, "~") {
			return reference{}, fmt.Errorf("%q is no JSON pointer: after ~ comes 0 or 1", "/"+text)
		}
		r.tokens = append(r.tokens, mcp.PointerName(token))
	}
	return r, nil
}

var errNoPointer = errors.New("it is no JSON pointer, which begins with / and a name, such as /issues/items")

// parsePointer reads /NAME or /NAME/POINTER.
func parsePointer(text string) (reference, error) {
	rest, ok := strings.CutPrefix(text, "/")
	if !ok || rest == "" || rest[0] == '/' {
		return reference{}, errNoPointer
	}
	return parseReference(rest)
}

// of returns the part of the value of its name, nil where there is none.
func (r reference) of(value []byte) []byte {
	for _, token := range r.tokens {
		switch {
		case len(value) == 0:
			return nil
		case value[0] == '{':
			value = mcp.Lookup(value, token)
		case value[0] == '[':
			value = element(value, token)
		default:
			return nil
		}
	}
	return value
}

// element returns an element of a list by its index, as a JSON pointer writes it.
func element(list []byte, token string) []byte {
	index, err := strconv.Atoi(token)
	if err != nil || index < 0 || strconv.Itoa(index) != token {
		return nil
	}
	n := 0
	for e := range mcp.Elements(list) {
		if n == index {
			return e.Of(list)
		}
		n++
	}
	return nil
}

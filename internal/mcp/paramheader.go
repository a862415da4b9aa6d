package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// ParamHeader is one argument of a tool that is mirrored into a header (x-mcp-header,
// 2026-07-28 streamable HTTP, Custom Headers from Tool Parameters).
type ParamHeader struct {
	Name string   // what follows Mcp-Param-
	Path []string // keys from the arguments to the value
}

// ParamHeaders returns the header annotations in a tool's validated input schema, nil
// when there are none. An annotation that violates the specification is an error; the
// tool must then not be offered over HTTP.
func ParamHeaders(schema []byte) ([]ParamHeader, error) {
	// Most schemas have none. The key may be escaped.
	if !bytes.Contains(schema, []byte("x-mcp-header")) && !bytes.Contains(schema, []byte(`\u`)) {
		return nil, nil
	}
	a := annotations{text: schema}
	if _, err := a.value(skipSpace(schema, 0), nil, reachable); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, h := range a.found {
		lower := strings.ToLower(h.Name)
		if names[lower] {
			return nil, fmt.Errorf("x-mcp-header %q is used twice", h.Name)
		}
		names[lower] = true
	}
	return a.found, nil
}

// annotations collects the annotations of a schema in one walk.
type annotations struct {
	text  []byte
	found []ParamHeader
}

// place is the role of a value in a schema.
type place uint8

const (
	reachable   place = iota // a schema on the chain of properties keywords
	elsewhere                // a schema anywhere else, or an array of them
	named                    // members with arbitrary names, each with a schema
	namedOnPath              // the same, for properties on the chain
	data                     // not a schema
)

// inside returns the role of the value of a schema's keyword.
func (p place) inside(keyword string) place {
	switch keyword {
	case "properties":
		if p == reachable {
			return namedOnPath
		}
		return named
	case "patternProperties", "dependentSchemas", "$defs", "definitions":
		return named
	case "const", "enum", "default", "examples", "dependentRequired":
		return data
	default:
		return elsewhere
	}
}

// value walks the value at i, whose path is given, and returns the index after it.
func (a *annotations) value(i int, path []string, in place) (int, error) {
	switch {
	case a.text[i] == '{' && in != data:
		return a.object(i, path, in)
	case a.text[i] == '[' && in != data:
		return a.array(i, path)
	}
	return skipValue(a.text, i), nil
}

func (a *annotations) array(i int, path []string) (end int, err error) {
	for i = skipSpace(a.text, i+1); a.text[i] != ']'; {
		if i, err = a.value(i, path, elsewhere); err != nil {
			return i, err
		}
		if i = skipSpace(a.text, i); a.text[i] == ',' {
			i = skipSpace(a.text, i+1)
		}
	}
	return i + 1, nil
}

func (a *annotations) object(i int, path []string, in place) (end int, err error) {
	var annotation, kind Span
	for i = skipSpace(a.text, i+1); a.text[i] == '"'; {
		start := i + 1
		i = skipString(a.text, i)
		key := unescape(a.text[start : i-1])
		i = skipSpace(a.text, skipSpace(a.text, i)+1)
		begin := i
		switch in {
		case named:
			i, err = a.value(i, path, elsewhere)
		case namedOnPath:
			i, err = a.value(i, append(slices.Clip(path), key), reachable)
		default:
			i, err = a.value(i, path, in.inside(key))
			switch key {
			case "x-mcp-header":
				annotation = Span{begin, i}
			case "type":
				kind = Span{begin, i}
			}
		}
		if err != nil {
			return i, err
		}
		if i = skipSpace(a.text, i); a.text[i] == ',' {
			i = skipSpace(a.text, i+1)
		}
	}
	if !annotation.Absent() {
		if in != reachable || len(path) == 0 {
			return i, errors.New("x-mcp-header on something that is not a statically reachable property")
		}
		h, err := paramHeader(annotation.Of(a.text), kind.Of(a.text), path)
		if err != nil {
			return i, err
		}
		a.found = append(a.found, h)
	}
	return i + 1, nil
}

func paramHeader(annotation, kind []byte, path []string) (ParamHeader, error) {
	name, err := Unquote(annotation)
	if err != nil || !token(name) {
		return ParamHeader{}, fmt.Errorf("x-mcp-header %.80q is not an HTTP field name", annotation)
	}
	switch kind, _ := Unquote(kind); kind {
	case "string", "integer", "boolean":
		return ParamHeader{Name: name, Path: path}, nil
	default:
		return ParamHeader{}, fmt.Errorf("x-mcp-header %.80q on a property that is not a string, integer or boolean", name)
	}
}

// token reports whether s is 1*tchar (RFC 9110 section 5.6.2).
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 {
			continue
		}
		return false
	}
	return s != ""
}

// Value returns the argument that h mirrors, as the text of its header. ok is false
// when the argument is absent, null or not a primitive.
func (h ParamHeader) Value(arguments []byte) (text string, ok bool) {
	raw := Lookup(arguments, h.Path...)
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		text, err := Unquote(raw)
		return text, err == nil
	case 't', 'f':
		return string(raw), true
	case 'n', '{', '[':
		return "", false
	}
	if n, exact := integer(string(raw)); exact {
		return n, true
	}
	return string(raw), true
}

// integer returns a number token as a plain decimal if it is a whole number of
// reasonable size.
func integer(token string) (string, bool) {
	if n, err := strconv.ParseInt(token, 10, 64); err == nil {
		return strconv.FormatInt(n, 10), true // -0 is 0
	}
	// Bound the exponent before the token becomes a rational number.
	if i := strings.IndexAny(token, "eE"); i >= 0 {
		if e, err := strconv.Atoi(token[i+1:]); err != nil || e > 64 || e < -64 {
			return "", false
		}
	}
	if len(token) > 128 {
		return "", false
	}
	r, ok := new(big.Rat).SetString(token)
	if !ok || !r.IsInt() {
		return "", false
	}
	return r.Num().String(), true
}

// CheckParams compares the Mcp-Param-* headers of a request with its arguments. Every
// annotated argument that is present must have its header, and no annotated header may
// come without one.
func CheckParams(headers http.Header, annotations []ParamHeader, arguments []byte) *Error {
	for _, h := range annotations {
		name := HeaderParam + h.Name
		want, present := h.Value(arguments)
		values := headers[http.CanonicalHeaderKey(name)]
		switch {
		case !present && len(values) == 0:
			continue
		case !present:
			return Errorf(CodeHeaderMismatch, "Header mismatch: %s has no value in the arguments", name)
		case len(values) == 0:
			return Errorf(CodeHeaderMismatch, "Header mismatch: %s is missing", name)
		}
		got, err := DecodeHeaderValue(values[0])
		if err != nil {
			return Errorf(CodeHeaderMismatch, "Header mismatch: %s: %v", name, err)
		}
		if len(values) > 1 || got != want && !sameNumber(got, Lookup(arguments, h.Path...)) {
			return Errorf(CodeHeaderMismatch, "Header mismatch: %s does not match the arguments", name)
		}
	}
	return nil
}

// sameNumber compares a header with a number in the body numerically.
func sameNumber(header string, body []byte) bool {
	if len(body) == 0 || body[0] != '-' && (body[0] < '0' || body[0] > '9') {
		return false
	}
	if Validate([]byte(header), Limits{}) != nil {
		return false
	}
	a, okA := integer(header)
	b, okB := integer(string(body))
	return okA && okB && a == b
}

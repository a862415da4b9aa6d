package schemas

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// spec are schemas that apply together.
type spec []*value

// branch is one alternative of a schema, with at most one type and without keywords that
// apply other schemas in place.
type branch struct {
	kind        string // one type; empty for any
	tag         string // a name for it among alternatives; empty for none
	description string
	merged      bool   // the description is of several values
	header      *value // x-mcp-header
	format      *value
	enum        []*value // nil for any value
	bounds      []bound

	names    []string // of the properties, in order
	members  map[string]spec
	required []string
	closed   bool // no other members
	rest     spec // of other members
	needs    []need
	items    spec

	open []*value // targets of the references on the way here
}

// bound is a keyword with a number or a text, such as minLength.
type bound struct {
	keyword string
	value   *value
}

// boundsOf are the bounds by type, with how two of them make one: the greater, the smaller,
// or only equal ones.
var boundsOf = []struct {
	keyword string
	kind    string
	order   int
}{
	{"minLength", "string", 1},
	{"maxLength", "string", -1},
	{"pattern", "string", 0},
	{"minimum", "number", 1},
	{"exclusiveMinimum", "number", 1},
	{"maximum", "number", -1},
	{"exclusiveMaximum", "number", -1},
	{"multipleOf", "number", 0},
	{"minItems", "array", 1},
	{"maxItems", "array", -1},
	{"uniqueItems", "array", 0},
	{"minProperties", "object", 1},
	{"maxProperties", "object", -1},
}

// inclusive are the bounds that the flags of draft 4 are about.
var inclusive = map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}

// own returns the alternatives that a schema says without other schemas: one for each type.
func (b *builder) own(s *value, open []*value) ([]*branch, error) {
	base := branch{description: textIn(s.get("description")), header: s.get("x-mcp-header"), format: s.get("format"), open: open}
	for _, keyword := range boundsOf {
		v := s.get(keyword.keyword)
		switch {
		case v == nil || v.kind == 'f':
			continue
		case v.kind == 't' && keyword.keyword != "uniqueItems": // draft 4: the bound itself is not allowed
			if v = s.get(inclusive[keyword.keyword]); v == nil {
				continue
			}
		}
		base.bounds = append(base.bounds, bound{keyword.keyword, v})
	}
	names, schemas := s.get("properties").members()
	if len(names) > 0 {
		base.members = make(map[string]spec, len(names))
		for i, name := range names {
			base.names = append(base.names, name)
			base.members[name] = spec{schemas[i]}
		}
	}
	base.required = namesIn(s.get("required"))
	switch rest := s.get("additionalProperties"); {
	case rest == nil, rest.kind == 't', rest.kind == '{' && len(rest.keys) == 0:
	case rest.kind == 'f':
		base.closed = true
	default:
		base.rest = spec{rest}
	}
	switch items := s.get("items"); {
	case items == nil, items.kind == 't':
	case items.kind == '[':
		return nil, errors.New("a list of items cannot be said in another way")
	default:
		base.items = spec{items}
	}
	if enum := s.get("enum"); enum != nil {
		if len(enum.elements()) > mostEnum {
			return nil, fmt.Errorf("an enum has more than %d values", mostEnum)
		}
		base.enum = append([]*value{}, enum.elements()...)
	}
	if c := s.get("const"); c != nil {
		if base.enum != nil && !slices.ContainsFunc(base.enum, func(e *value) bool { return same(e, c) }) {
			return nil, nil
		}
		base.enum = []*value{c}
	}
	kinds := s.get("type")
	if len(kinds.elements()) > mostKinds {
		return nil, fmt.Errorf("a list of types has more than %d", mostKinds)
	}
	return base.kinds(kinds), nil
}

const (
	// mostEnum is the longest enum that is rewritten.
	mostEnum = 1000
	// mostKinds is how many types JSON Schema has.
	mostKinds = 7
)

// kinds splits what a schema says by the types that it names, or that its enum has.
func (x *branch) kinds(of *value) (out []*branch) {
	kinds := namesIn(of)
	switch one, ok := of.string(); {
	case ok:
		kinds = []string{one}
	case of == nil && x.enum != nil:
		for _, e := range x.enum {
			if kind := kindOf(e); !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	case of == nil:
		kinds = []string{x.implied()}
	}
	for _, kind := range kinds {
		if kind == "integer" && slices.Contains(kinds, "number") {
			continue
		}
		if one := x.as(kind); one != nil {
			out = append(out, one)
		}
	}
	return out
}

// implied returns the only type that a schema without one is about; empty for any.
func (x *branch) implied() string {
	switch {
	case len(x.names) > 0 || len(x.required) > 0 || x.closed || x.rest != nil:
		return "object"
	case x.items != nil:
		return "array"
	}
	for _, b := range x.bounds {
		for _, k := range boundsOf {
			if k.keyword == b.keyword {
				return k.kind
			}
		}
	}
	return ""
}

// as returns what a branch says of one type; nil when it accepts no value of the type.
func (x *branch) as(kind string) *branch {
	out := *x
	out.kind = kind
	if x.enum != nil {
		out.enum = []*value{}
		for _, e := range x.enum {
			if k := kindOf(e); k == kind || kind == "number" && k == "integer" || kind == "integer" && k == "number" || kind == "" {
				out.enum = append(out.enum, e)
			}
		}
		if len(out.enum) == 0 {
			return nil
		}
	}
	out.bounds = nil
	for _, b := range x.bounds {
		if kind == "" || boundIsFor(b.keyword, kind) {
			out.bounds = append(out.bounds, b)
		}
	}
	if kind != "object" && kind != "" {
		out.names, out.members, out.required, out.closed, out.rest, out.needs = nil, nil, nil, false, nil, nil
	}
	if kind != "array" && kind != "" {
		out.items = nil
	}
	if kind != "string" && kind != "number" && kind != "integer" && kind != "" {
		out.format = nil
	}
	return &out
}

func boundIsFor(keyword, kind string) bool {
	if kind == "integer" {
		kind = "number"
	}
	return slices.ContainsFunc(boundsOf, func(b struct {
		keyword string
		kind    string
		order   int
	},
	) bool {
		return b.keyword == keyword && b.kind == kind
	})
}

// kindOf returns the type of a value. A number without a fraction is an integer.
func kindOf(v *value) string {
	switch v.kind {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	if _, whole := decimal(string(v.raw)); whole {
		return "integer"
	}
	return "number"
}

// number returns the exact value of a number; nil for another value, and for one that is
// too large to compute with.
func number(v *value) *big.Rat {
	if v == nil || v.kind != '0' || !mcp.Computable(string(v.raw)) {
		return nil
	}
	if v.exact == nil {
		v.exact, _ = new(big.Rat).SetString(string(v.raw))
	}
	return v.exact
}

// tagOf returns the name of a branch as a property: letters, digits and underscores.
func (x *branch) tagOf() string {
	tag := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		case r == ' ' || r == '-' || r == '.':
			return '_'
		}
		return -1
	}, x.tag)
	switch {
	case tag != "" && len(tag) <= 40:
		return tag
	case x.kind == "":
		return "any"
	}
	return x.kind
}

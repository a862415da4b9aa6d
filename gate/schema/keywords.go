package schema

import (
	"encoding/json"
	"maps"
	"math"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// counts are the keywords whose value is a count.
var counts = []string{
	"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
}

// values weighs the keywords that hold values instead of schemas.
func (v *vetter) values(n *node) error {
	if enum, ok := n.object["enum"].([]any); ok {
		if len(enum) > MaxEnum {
			return refuse(n.pointer+"/enum", "it lists %d values and may list %d", len(enum), MaxEnum)
		}
		n.weight += count(enum) / 8
	}
	if value, ok := n.object["const"]; ok {
		n.weight += count(value) / 8
	}
	if names, ok := n.object["required"].([]any); ok {
		n.weight += len(names) / 16
	}
	if lists, ok := n.object["dependentRequired"].(map[string]any); ok {
		n.weight += count(lists) / 16
	}
	for _, keyword := range counts {
		// The library stores these in an int, in which larger numbers overflow.
		number, ok := n.object[keyword].(json.Number)
		if !ok {
			continue
		}
		if exact, ok := new(big.Rat).SetString(string(number)); ok && exact.Cmp(big.NewRat(math.MaxInt32, 1)) > 0 {
			n.object[keyword] = json.Number(strconv.Itoa(math.MaxInt32))
		}
	}
	if format, ok := n.object["format"].(string); ok {
		n.format = format
		if !v.keepFormat || format == "regex" {
			delete(n.object, "format")
		}
	}
	return nil
}

// one adds the schema under a keyword; nil when there is none.
func (v *vetter) one(n *node, keyword string) (*node, error) {
	value, ok := n.object[keyword]
	if !ok {
		return nil, nil
	}
	return v.subschema(value, n.pointer+"/"+keyword)
}

// list adds the schemas of an array under a keyword.
func (v *vetter) list(n *node, keyword string) ([]*node, error) {
	values, _ := n.object[keyword].([]any)
	var nodes []*node
	for i, value := range values {
		c, err := v.subschema(value, n.pointer+"/"+keyword+"/"+strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, c)
	}
	return nodes, nil
}

// named adds the schemas of an object under a keyword.
func (v *vetter) named(n *node, keyword string) (map[string]*node, error) {
	values, _ := n.object[keyword].(map[string]any)
	nodes := make(map[string]*node, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, ok := values[name].([]any); ok {
			n.weight += len(values[name].([]any)) / 16 // names in dependencies
			continue
		}
		c, err := v.subschema(values[name], n.pointer+"/"+keyword+"/"+mcp.PointerToken(name))
		if err != nil {
			return nil, err
		}
		nodes[name] = c
	}
	return nodes, nil
}

// inPlace adds the subschemas that apply to the same value.
func (v *vetter) inPlace(n *node) error {
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		nodes, err := v.list(n, keyword)
		if err != nil {
			return err
		}
		n.inPlace = append(n.inPlace, nodes...)
	}
	for _, keyword := range []string{"not", "if", "then", "else"} {
		c, err := v.one(n, keyword)
		if err != nil {
			return err
		}
		if c != nil {
			n.inPlace = append(n.inPlace, c)
		}
	}
	for _, keyword := range []string{"dependentSchemas", "dependencies"} {
		nodes, err := v.named(n, keyword)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(nodes)) {
			n.inPlace = append(n.inPlace, nodes[name])
		}
	}
	return nil
}

// forObjects adds the subschemas for the members of an object.
func (v *vetter) forObjects(n *node) (err error) {
	if n.properties, err = v.named(n, "properties"); err != nil {
		return err
	}
	patterned, err := v.named(n, "patternProperties")
	if err != nil {
		return err
	}
	for _, pattern := range slices.Sorted(maps.Keys(patterned)) {
		n.patterned = append(n.patterned, patterned[pattern])
	}
	if n.additional, err = v.one(n, "additionalProperties"); err != nil {
		return err
	}
	if n.uneval, err = v.one(n, "unevaluatedProperties"); err != nil {
		return err
	}
	n.names, err = v.one(n, "propertyNames")
	return err
}

// forArrays adds the subschemas for the elements of an array.
func (v *vetter) forArrays(n *node) (err error) {
	n.unique, _ = n.object["uniqueItems"].(bool)
	rest := "items"
	if _, ok := n.object["items"].([]any); ok {
		rest = "additionalItems"
		n.tuple, err = v.list(n, "items")
	} else {
		n.tuple, err = v.list(n, "prefixItems")
	}
	if err != nil {
		return err
	}
	if n.items, err = v.one(n, rest); err != nil {
		return err
	}
	for _, keyword := range []string{"contains", "unevaluatedItems"} {
		c, err := v.one(n, keyword)
		if err != nil {
			return err
		}
		if c != nil {
			n.elements = append(n.elements, c)
		}
	}
	return nil
}

// definitions adds the subschemas that apply only by reference.
func (v *vetter) definitions(n *node) error {
	for _, keyword := range []string{"$defs", "definitions"} {
		if _, err := v.named(n, keyword); err != nil {
			return err
		}
	}
	_, err := v.one(n, "contentSchema")
	return err
}

// resolve finds the target of a reference, adds the edge to it and rewrites the
// reference in its shortest form.
func (v *vetter) resolve(r reference) error {
	at := r.from.pointer + "/" + r.keyword
	text := r.to
	if v.rootID != "" {
		if rest, ok := strings.CutPrefix(text, v.rootID); ok && (rest == "" || rest[0] == '#') {
			text = rest
		}
	}
	fragment, ok := strings.CutPrefix(text, "#")
	if !ok && (text != "" || r.to == "") {
		return refuse(at, "the reference to %s leaves the document", quote(r.to))
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return refuse(at, "the reference to %s cannot be read", quote(r.to))
	}
	if fragment != "" && fragment[0] != '/' {
		pointer, ok := v.anchors[fragment]
		if !ok {
			return refuse(at, "the reference to %s leads nowhere", quote(r.to))
		}
		r.from.inPlace = append(r.from.inPlace, v.nodes[pointer])
		r.from.object[r.keyword] = "#" + url.PathEscape(fragment)
		return nil
	}
	pointer, value, ok := v.lookUp(fragment)
	if !ok {
		return refuse(at, "the reference to %s leads nowhere", quote(r.to))
	}
	if _, ok := v.nodes[pointer]; !ok {
		if v.pointedAt++; v.pointedAt > maxPointedAt {
			return refuse(at, "more than %d references lead to places where no schema is expected", maxPointedAt)
		}
	}
	c, err := v.subschema(value, pointer)
	if err != nil {
		return err
	}
	r.from.inPlace = append(r.from.inPlace, c)
	r.from.object[r.keyword] = "#" + escapeFragment(pointer)
	return nil
}

// lookUp returns the value at a JSON Pointer, which is empty or starts with a slash,
// and the pointer in canonical form.
func (v *vetter) lookUp(fragment string) (pointer string, value any, ok bool) {
	tokens, ok := tokensOf(fragment)
	if !ok {
		return "", nil, false
	}
	value = v.doc
	for _, token := range tokens {
		switch container := value.(type) {
		case map[string]any:
			if value, ok = container[token]; !ok {
				return "", nil, false
			}
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(container) || strconv.Itoa(i) != token {
				return "", nil, false
			}
			value = container[i]
		default:
			return "", nil, false
		}
	}
	return pointerOf(tokens), value, true
}

// escapeFragment writes a JSON Pointer as a fragment (RFC 6901 section 6).
func escapeFragment(pointer string) string {
	tokens := strings.Split(pointer, "/")
	for i, token := range tokens {
		tokens[i] = url.PathEscape(token)
	}
	return strings.Join(tokens, "/")
}

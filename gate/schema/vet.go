package schema

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolgate/toolgate/internal/mcp"
)

// maxPointer bounds the pointers to subschemas, which the library stores.
const maxPointer = 4096

// vetted is a schema that is safe for the library.
type vetted struct {
	doc      any // rewritten: no identifiers, no unknown patterns
	draft    *jsonschema.Draft
	root     *node
	nodes    map[string]*node // by pointer
	stripped []string         // pointers of removed keywords
}

// vetter walks the subschemas of one document.
type vetter struct {
	vetted
	keepFormat bool
	rootID     string
	anchors    map[string]string // anchors to pointers
	refs       []reference
	nested     string // pointer of the first identifier below the root
	patterns   patterns
	pointedAt  int
}

// reference is a $ref, $dynamicRef or $recursiveRef.
type reference struct {
	from    *node
	keyword string
	to      string
}

// vet decides whether a schema may be compiled. Its errors are [Quarantined].
func vet(raw []byte, keepFormat bool) (*vetted, error) {
	if len(raw) > MaxBytes {
		return nil, refuse("", "it has %d bytes and may have %d", len(raw), MaxBytes)
	}
	if err := mcp.Validate(raw, mcp.Limits{Depth: MaxDepth, LoneSurrogates: true}); err != nil {
		return nil, refuse("", "it is not strict JSON of at most %d levels: %v", MaxDepth, err)
	}
	doc, _, err := decode(raw, len(raw), nil)
	if err != nil {
		if r, ok := errors.AsType[*refusal](err); ok {
			return nil, refuse(r.pointer, "%s", r.reason)
		}
		return nil, refuse("", "%v", err)
	}
	v := &vetter{
		vetted:     vetted{doc: doc, draft: jsonschema.Draft2020, nodes: map[string]*node{}},
		keepFormat: keepFormat,
		anchors:    map[string]string{},
	}
	if err := v.document(); err != nil {
		return nil, err
	}
	return &v.vetted, nil
}

func (v *vetter) document() error {
	switch doc := v.doc.(type) {
	case bool:
	case map[string]any:
		if err := v.dialect(doc); err != nil {
			return err
		}
		if id, ok := doc[v.idKeyword()].(string); ok && !strings.HasPrefix(id, "#") {
			v.rootID, _, _ = strings.Cut(id, "#")
			delete(doc, v.idKeyword())
		}
	default:
		return refuse("", "a schema is an object, or true or false")
	}
	var err error
	if v.root, err = v.subschema(v.doc, ""); err != nil {
		return err
	}
	if v.nested != "" && len(v.refs) > 0 {
		return refuse(v.nested, "an identifier below the root changes what the references mean")
	}
	for i := 0; i < len(v.refs); i++ { // resolving may add more
		if err := v.resolve(v.refs[i]); err != nil {
			return err
		}
	}
	for _, pointer := range slices.Sorted(maps.Keys(v.nodes)) {
		if err := v.nodes[pointer].measure(); err != nil {
			return err
		}
	}
	if len(v.stripped) > 0 {
		slices.Sort(v.stripped)
		v.relax()
	}
	return nil
}

// dialects are the supported values of $schema, without scheme and empty fragment.
var dialects = map[string]*jsonschema.Draft{
	"json-schema.org/schema":               jsonschema.Draft2020,
	"json-schema.org/draft/2020-12/schema": jsonschema.Draft2020,
	"json-schema.org/draft/2019-09/schema": jsonschema.Draft2019,
	"json-schema.org/draft-07/schema":      jsonschema.Draft7,
	"json-schema.org/draft-06/schema":      jsonschema.Draft6,
	"json-schema.org/draft-04/schema":      jsonschema.Draft4,
}

func (v *vetter) dialect(root map[string]any) error {
	switch named := root["$schema"].(type) {
	case nil:
		v.draft = guessDraft(root)
	case string:
		name := strings.TrimPrefix(strings.TrimPrefix(named, "https://"), "http://")
		draft, ok := dialects[strings.TrimSuffix(name, "#")]
		if !ok {
			return refuse("/$schema", "the dialect %s is not known; known are the drafts 4, 6, 7, 2019-09 and 2020-12", quote(named))
		}
		v.draft = draft
	default:
		return refuse("/$schema", "the dialect must be a string")
	}
	return nil
}

// guessDraft returns the draft for a schema without a dialect: 2020-12, or the latest
// draft that has the forms it uses.
func guessDraft(root map[string]any) *jsonschema.Draft {
	draft := jsonschema.Draft2020
	var look func(value any)
	look = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			_, upper := value["exclusiveMaximum"].(bool)
			_, lower := value["exclusiveMinimum"].(bool)
			_, tuple := value["items"].([]any)
			switch {
			case upper || lower:
				draft = jsonschema.Draft4
			case tuple && draft != jsonschema.Draft4:
				draft = jsonschema.Draft7
			}
			for key, v := range value {
				if key != "enum" && key != "const" && key != "default" && key != "examples" {
					look(v)
				}
			}
		case []any:
			for _, v := range value {
				look(v)
			}
		}
	}
	look(root)
	return draft
}

func (v *vetter) before2019() bool {
	return v.draft == jsonschema.Draft4 || v.draft == jsonschema.Draft6 || v.draft == jsonschema.Draft7
}

func (v *vetter) idKeyword() string {
	if v.draft == jsonschema.Draft4 {
		return "id"
	}
	return "$id"
}

// subschema adds the node of a schema and of all its subschemas.
func (v *vetter) subschema(value any, pointer string) (*node, error) {
	if n, ok := v.nodes[pointer]; ok {
		return n, nil
	}
	switch {
	case len(v.nodes) >= MaxSubschemas:
		return nil, refuse(pointer, "it has more than %d subschemas", MaxSubschemas)
	case len(pointer) > maxPointer:
		return nil, refuse(pointer, "the names down to here have more than %d bytes", maxPointer)
	}
	n := &node{pointer: pointer}
	v.nodes[pointer] = n
	object, ok := value.(map[string]any)
	if !ok {
		n.never = value == false
		return n, nil // a boolean; the library refuses other values
	}
	n.object = object
	for _, step := range []func(*node) error{v.identity, v.regexps, v.values, v.inPlace, v.forObjects, v.forArrays, v.definitions} {
		if err := step(n); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// identity records anchors and references, and removes identifiers.
func (v *vetter) identity(n *node) error {
	// The root's is known by now. Below the root, none exists without an identifier.
	delete(n.object, "$schema")
	idKeyword := v.idKeyword()
	if id, ok := n.object[idKeyword].(string); ok {
		if anchor, ok := strings.CutPrefix(id, "#"); ok && v.before2019() {
			v.anchors[anchor] = n.pointer
		} else if n.pointer != "" {
			if v.nested == "" {
				v.nested = n.pointer + "/" + idKeyword
			}
			delete(n.object, idKeyword)
		}
	}
	keywords := []string{"$ref"}
	if !v.before2019() {
		keywords = append(keywords, "$recursiveRef")
		for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
			if anchor, ok := n.object[keyword].(string); ok {
				v.anchors[anchor] = n.pointer
			}
		}
	}
	if v.draft == jsonschema.Draft2020 {
		keywords = append(keywords, "$dynamicRef")
	}
	for _, keyword := range keywords {
		if to, ok := n.object[keyword].(string); ok {
			v.refs = append(v.refs, reference{n, keyword, to})
		}
	}
	return nil
}

// regexps measures the patterns and removes those that RE2 does not support.
func (v *vetter) regexps(n *node) error {
	if pattern, ok := n.object["pattern"].(string); ok {
		pattern = translate(pattern)
		instructions, known, err := v.patterns.add(n.pointer+"/pattern", pattern)
		if err != nil {
			return err
		}
		if known {
			n.object["pattern"], n.instructions = pattern, instructions
		} else {
			delete(n.object, "pattern")
			v.leaveOut(n, "/pattern")
		}
	}
	names, _ := n.object["patternProperties"].(map[string]any)
	for _, pattern := range slices.Sorted(maps.Keys(names)) {
		at := "/patternProperties/" + mcp.PointerToken(pattern)
		_, known, err := v.patterns.add(n.pointer+at, translate(pattern))
		if err != nil {
			return err
		}
		value := names[pattern]
		switch translated := translate(pattern); {
		case known && translated == pattern:
		case known:
			delete(names, pattern)
			names[translated] = value
		default:
			// Any name may match such a pattern, so all names count as known.
			delete(names, pattern)
			names[""] = map[string]any{}
			v.leaveOut(n, at)
		}
	}
	return nil
}

func (v *vetter) leaveOut(n *node, keyword string) {
	n.relaxed = true
	v.stripped = append(v.stripped, n.pointer+keyword)
}

package schemas

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// builder rewrites one schema.
type builder struct {
	targets targets
	fine    map[*value]bool // what conforms, as far as it is known
	unroll  int             // how often a reference may lead to the same place on one way
	left    int             // schemas still allowed, read and written
	steps   int             // steps still allowed: a value, a name, or some bytes, each time it is read
}

func newBuilder(root *value, fine map[*value]bool, unroll int) *builder {
	return &builder{targets: targets{root: root}, fine: fine, unroll: unroll, left: mostNodes, steps: mostSteps}
}

// built is a rewritten schema. Without a schema, no value is accepted.
type built struct {
	schema     *value
	translator *translator
	note       string // what the schema cannot say, for its description
}

// build rewrites schemas that apply together.
func (b *builder) build(of spec, open []*value) (built, error) {
	if b.left--; b.left < 0 {
		return built{}, errTooLarge
	}
	if len(of) == 1 && conforms(of[0], b.fine) {
		return built{schema: of[0]}, nil
	}
	list, err := b.conjunction(of, open)
	if err != nil {
		return built{}, err
	}
	return b.emit(simplify(list), b.about(of, ""))
}

// about is what a schema says for people, and its default.
type about struct {
	description string
	value       *value // nil for no default
}

// about returns what schemas that apply together say before their alternatives. The name
// is that of the property.
func (b *builder) about(of spec, name string) (a about) {
	for _, s := range of {
		for range 8 {
			if a.description == "" {
				a.description = textIn(s.get("description"))
			}
			if title := textIn(s.get("title")); a.description == "" && !repeats(title, name) {
				a.description = title
			}
			if a.value == nil {
				a.value = s.get("default")
			}
			ref, ok := s.get("$ref").string()
			if !ok {
				break
			}
			to := b.targets.follow(ref)
			if to == nil {
				break
			}
			s = to
		}
	}
	return a
}

// simplify leaves out alternatives that others contain.
func simplify(list []*branch) []*branch {
	var out []*branch
	var unions []*union // by index of out; nil for an alternative of its own
	for _, x := range list {
		if x.kind == "" && x.free() {
			return []*branch{x}
		}
		merged := false
		for i, y := range out {
			switch {
			case y.scalar() && y.free() && y.contains(x.kind):
				merged = true
			case x.scalar() && x.free() && x.contains(y.kind):
				out[i], unions[i], merged = x, nil, true
			case x.kind == y.kind && x.words() && y.words():
				if unions[i] == nil {
					unions[i] = newUnion(y)
				}
				unions[i].add(x)
				merged = true
			}
			if merged {
				break
			}
		}
		if !merged {
			out, unions = append(out, x), append(unions, nil)
		}
	}
	for i, u := range unions {
		if u != nil {
			out[i] = u.branch()
		}
	}
	return out
}

// words tells whether a branch is only a list of scalar values.
func (x *branch) words() bool {
	return x.scalar() && x.enum != nil && len(x.bounds) == 0 && x.header == nil
}

// union makes one branch of several that are lists of values.
type union struct {
	first *branch
	text  []byte
	enum  []*value
	had   map[string]bool // the forms of enum
}

func newUnion(x *branch) *union {
	u := &union{first: x, had: make(map[string]bool, len(x.enum))}
	u.add(x)
	return u
}

func (u *union) add(x *branch) {
	if len(u.text) > 0 {
		u.text = append(u.text, "; "...)
	}
	u.text = bytes.Trim(append(u.text, x.described()...), "; ")
	for _, e := range x.enum {
		if form := e.equalForm(); !u.had[form] {
			u.had[form] = true
			u.enum = append(u.enum, e)
		}
	}
}

func (u *union) branch() *branch {
	x := *u.first
	x.description, x.merged, x.enum = string(u.text), true, u.enum
	return &x
}

// described returns the description of a branch, with its value if it has only one.
func (x *branch) described() string {
	if len(x.enum) != 1 || x.description == "" || x.merged {
		return x.description
	}
	if text, ok := x.enum[0].string(); ok {
		return text + ": " + x.description
	}
	return string(x.enum[0].raw) + ": " + x.description
}

// contains tells whether every value of a type is one of the branch's type.
func (x *branch) contains(kind string) bool {
	return x.kind == kind || x.kind == "number" && kind == "integer"
}

func (x *branch) scalar() bool { return x.kind != "object" && x.kind != "array" && x.kind != "" }

// free tells whether a branch accepts every value of its type.
func (x *branch) free() bool {
	return x.enum == nil && len(x.bounds) == 0 && len(x.names) == 0 && len(x.required) == 0 && !x.closed && x.rest == nil && len(x.needs) == 0 && x.items == nil
}

// emit writes alternatives: one as it is, several as the properties of an object.
func (b *builder) emit(list []*branch, a about) (built, error) {
	var tags []string
	var all []built
	texts, named := map[string]bool{}, map[string]int{} // named has the last number of each tag
	for _, x := range list {
		if x.merged && a.description != "" && x.description != "" && x.description != a.description {
			a.description += " (" + x.description + ")"
		}
		one, err := b.branch(x)
		if err != nil {
			return built{}, err
		}
		if one.schema == nil {
			continue
		}
		size := maxBytes - one.schema.room(maxBytes)
		if size > maxBytes || !b.spend(size/bytesOfStep) {
			return built{}, errTooLarge
		}
		if one.translator == nil && len(list) > 1 {
			text := string(one.schema.write(make([]byte, 0, size)))
			if texts[text] {
				continue
			}
			texts[text] = true
		}
		base := x.tagOf()
		tag, n := base, max(named[base], 1)
		for named[tag] > 0 {
			n++
			tag = base + "_" + strconv.Itoa(n)
		}
		named[base] = n
		named[tag] = max(named[tag], 1)
		tags, all = append(tags, tag), append(all, one)
	}
	switch len(all) {
	case 0:
		return built{}, nil
	case 1:
		one := all[0]
		one.schema = &value{kind: '{', keys: slices.Clone(one.schema.keys), values: slices.Clone(one.schema.values)}
		if a.description != "" && a.description != textIn(one.schema.get("description")) {
			one.schema.set("description", textOf(a.description))
		}
		one.explain()
		if a.value != nil && a.value.kind != 'n' && one.translator == nil {
			one.schema.set("default", a.value)
		}
		return one, nil
	}
	return tagged(tags, all, a)
}

// tagged writes alternatives as an object of which the caller gives one property.
func tagged(tags []string, all []built, a about) (built, error) {
	properties := &value{kind: '{'}
	t := &translator{tags: make(map[string]*translator, len(all))}
	for i, tag := range tags {
		if hasHeader(all[i].schema) {
			return built{}, errors.New("an argument that is sent as a header has alternatives")
		}
		all[i].explain()
		properties.set(tag, all[i].schema)
		t.tags[tag] = all[i].translator
	}
	s := &value{kind: '{'}
	s.set("type", textOf("object"))
	s.set("description", textOf(strings.TrimSpace(a.description+" Give exactly one of the properties.")))
	s.set("properties", properties)
	one := &value{kind: '0', raw: []byte("1")}
	s.set("minProperties", one)
	s.set("maxProperties", one)
	s.set("additionalProperties", &value{kind: 'f', raw: literals['f']})
	return built{schema: s, translator: t}, nil
}

// explain adds the note to the description.
func (o *built) explain() {
	if o.note != "" {
		o.schema.set("description", textOf(strings.TrimSpace(textIn(o.schema.get("description"))+o.note)))
		o.note = ""
	}
}

func hasHeader(s *value) bool {
	found := false
	s.walk(func(s *value) { found = found || s.get("x-mcp-header") != nil })
	return found
}

// branch writes one alternative.
func (b *builder) branch(x *branch) (built, error) {
	if b.left--; b.left < 0 {
		return built{}, errTooLarge
	}
	s := &value{kind: '{'}
	if x.kind == "null" {
		s.set("type", textOf("string"))
		s.set("enum", listOf(textOf("null")))
		return built{schema: s, translator: &translator{null: true}}, nil
	}
	if x.kind != "" {
		s.set("type", textOf(x.kind))
	}
	if x.description != "" {
		s.set("description", textOf(x.description))
	}
	if x.enum != nil {
		if !x.scalar() {
			return built{}, errors.New("an enum of objects or lists cannot be said in another way")
		}
		s.set("enum", listOf(x.enum...))
	}
	for _, one := range x.bounds {
		s.set(one.keyword, one.value)
	}
	if x.format != nil {
		s.set("format", x.format)
	}
	if x.header != nil {
		s.set("x-mcp-header", x.header)
	}
	switch x.kind {
	case "object":
		return b.object(x, s)
	case "array":
		return b.array(x, s)
	}
	return built{schema: s}, nil
}

func (b *builder) array(x *branch, s *value) (built, error) {
	items, err := b.build(x.items, x.open)
	if err != nil {
		return built{}, err
	}
	if items.schema == nil {
		if least := number(s.get("minItems")); least != nil && least.Sign() > 0 {
			return built{}, nil
		}
		s.set("items", &value{kind: '{'})
		s.set("maxItems", &value{kind: '0', raw: []byte("0")})
		return built{schema: s}, nil
	}
	s.set("items", items.schema)
	if items.translator == nil {
		return built{schema: s}, nil
	}
	if s.get("uniqueItems") != nil {
		return built{}, errors.New("unique elements with alternatives cannot be said in another way")
	}
	return built{schema: s, translator: &translator{items: items.translator}}, nil
}

// object writes an alternative that is an object.
func (b *builder) object(x *branch, s *value) (built, error) {
	properties := &value{kind: '{'}
	t := &translator{members: map[string]*translator{}, needs: x.needs}
	changes := len(x.needs) > 0
	closed := x.closed
	required := map[string]bool{}
	for _, name := range x.required {
		required[name] = true
	}
	names := slices.Clone(x.names)
	for _, name := range x.required {
		if _, ok := x.members[name]; ok {
			continue
		}
		if x.closed {
			return built{}, nil
		}
		names = append(names, name)
	}
	names = unique(names)
	for _, name := range names {
		of, listed := x.members[name]
		if !listed {
			of = x.rest
		}
		m, err := b.member(name, of, x.open, required[name])
		if err != nil {
			return built{}, err
		}
		if m.null {
			t.nulls, changes = append(t.nulls, name), true
			delete(required, name)
		}
		if m.schema == nil {
			if required[name] {
				return built{}, nil
			}
			closed = true
			continue
		}
		properties.set(name, m.schema)
		t.members[name] = m.translator
		changes = changes || m.translator != nil
	}
	s.set("properties", properties)
	if list := requiredOf(properties.keys, required); len(list.values) > 0 {
		s.set("required", list)
	}
	if len(x.rest) > 0 && !closed {
		rest, err := b.build(x.rest, x.open)
		if err != nil {
			return built{}, err
		}
		if closed = rest.schema == nil; !closed {
			s.set("additionalProperties", rest.schema)
			t.rest = rest.translator
			changes = changes || t.rest != nil
		}
	}
	if closed {
		s.set("additionalProperties", &value{kind: 'f', raw: literals['f']})
	}
	if !leaveRoom(s, len(t.nulls)) {
		return built{}, nil
	}
	if !changes {
		return built{schema: s}, nil
	}
	out := built{schema: s, translator: t}
	for i := range t.needs {
		out.note += " " + t.needs[i].sentence()
	}
	return out, nil
}

func unique(names []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(names, func(name string) bool {
		had := seen[name]
		seen[name] = true
		return had
	})
}

func requiredOf(names []string, required map[string]bool) *value {
	list := listOf()
	for _, name := range names {
		if required[name] {
			list.values = append(list.values, textOf(name))
		}
	}
	return list
}

// leaveRoom lowers maxProperties by the members that the translation may add; false if no
// object remains.
func leaveRoom(s *value, nulls int) bool {
	most := number(s.get("maxProperties"))
	if most == nil || nulls == 0 {
		return true
	}
	if !most.IsInt() || !most.Num().IsInt64() {
		return true
	}
	n := most.Num().Int64() - int64(nulls)
	s.set("maxProperties", &value{kind: '0', raw: strconv.AppendInt(nil, n, 10)})
	return n >= 0
}

// member is the schema of a property. With null, the property is null where it is left out.
type member struct {
	built
	null bool
}

// member rewrites the schema of a property. One that may be null is left out instead, if
// that is its default or the translation can tell.
func (b *builder) member(name string, of spec, open []*value, needed bool) (member, error) {
	if b.left--; b.left < 0 {
		return member{}, errTooLarge
	}
	if len(of) == 1 && conforms(of[0], b.fine) {
		return member{built: built{schema: of[0]}}, nil
	}
	list, err := b.conjunction(of, open)
	if err != nil {
		return member{}, err
	}
	list, a := simplify(list), b.about(of, name)
	rest := slices.DeleteFunc(slices.Clone(list), func(x *branch) bool { return x.kind == "null" })
	nullable := len(rest) > 0 && len(rest) < len(list)
	var m member
	switch {
	case nullable && needed:
		m.null = true
		a.description = strings.TrimSpace(a.description + " Leave it out for null.")
	case nullable && a.value != nil && a.value.kind == 'n':
	default:
		rest = list
	}
	m.built, err = b.emit(rest, a)
	return m, err
}

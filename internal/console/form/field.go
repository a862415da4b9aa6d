package form

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// What a form may be. The rest of a schema is written as JSON.
const (
	maxFields  = 200
	maxDepth   = 6
	maxRows    = 50
	maxOptions = 500      // of one field
	allOptions = 2000     // of all fields
	maxName    = 200      // bytes of the name of a member
	maxDefault = 64 << 10 // bytes of a value that a schema suggests
	maxRefs    = 8        // references that are followed for one field
	maxParts   = 32       // objects of keywords that hold for one value
	maxWork    = 4 << 20  // bytes of schemas and values that are looked at for one form
)

// Kind is how a field is written.
type Kind string

// The kinds of fields.
const (
	Text    Kind = "text"
	Long    Kind = "long" // a text of several lines
	Number  Kind = "number"
	Choice  Kind = "choice"  // one of the options
	Choices Kind = "choices" // some of the options
	File    Kind = "file"    // the content of a file
	JSON    Kind = "json"
	Object  Kind = "object" // has fields
	List    Kind = "list"   // has fields, all of one kind
)

// Option is a value to choose.
type Option struct {
	Label  string
	Index  string // of the option; what a form sends
	Chosen bool
	raw    []byte
}

// Field is one value of a form. The names of inputs begin with the prefix of the form.
type Field struct {
	Name        string // of its input
	Upload      string // name of the input for a file
	Rows        string // of a list: name of the input for the number of its fields
	Label       string
	Description string
	Wants       string // what is to be written, in words
	Kind        Kind
	Required    bool
	Text        string // as it was written; of a file in base64, so that a form sends its bytes unchanged
	Options     []Option
	Fields      []Field
	Problems    []string

	base64  bool   // of a file: how its content is sent
	at      string // JSON Pointer of the value in the JSON that was made; empty for none
	pointer string // JSON Pointer in the form, where empty rows count
}

// Form is a form for values of a schema.
type Form struct {
	Fields   []Field
	Problems []string // that belong to no field
	// Left is how many members cannot be in a form. They can be written in JSON only.
	Left int
}

// minFields is how many fields a form has at least, however many there are on its page.
const minFields = 25

// NewOneOf is [New] for one of several forms on a page. They share what a form may have.
func NewOneOf(forms int, schema []byte, prefix string, sent url.Values) *Form {
	b := &builder{
		root: schema, prefix: prefix, sent: sent, presets: sent == nil,
		left: max(maxFields/max(forms, 1), minFields), options: allOptions / max(forms, 1), work: maxWork / max(forms, 1),
	}
	f := &Form{}
	f.Fields, f.Left = b.members(schema, "", nil, 1)
	return f
}

// New returns the form of a schema whose inputs have a prefix. It has what was written into
// it before, or where sent is nil the members of a JSON object, or what the schema suggests.
func New(schema []byte, prefix string, sent url.Values, object []byte) *Form {
	b := &builder{root: schema, prefix: prefix, sent: sent, presets: sent == nil && object == nil, left: maxFields, options: allOptions, work: maxWork}
	f := &Form{}
	f.Fields, f.Left = b.members(schema, "", object, 1)
	return f
}

// builder makes the fields of one form.
type builder struct {
	root   []byte
	prefix string
	sent   url.Values // nil for a form that nobody has sent
	// presets tells that the form has what the schema suggests.
	presets bool
	left    int // how many more fields there may be
	options int // how many more options there may be
	work    int // how many more bytes are looked at; then the rest is written as JSON
}

// members returns the fields of the members of an object, and how many are left out.
func (b *builder) members(schema []byte, pointer string, object []byte, depth int) (fields []Field, out int) {
	known := map[string]bool{}
	for _, part := range b.parts(schema) {
		properties := mcp.Lookup(part, "properties")
		for m := range mcp.Members(properties) {
			name, err := mcp.Unquote(m.Key(properties))
			if known[name] {
				continue
			}
			known[name] = true
			if err != nil || len(name) > maxName || b.left == 0 {
				out++
				continue
			}
			f, more := b.field(m.Value.Of(properties), name, pointer+"/"+mcp.PointerToken(name), mcp.Lookup(object, name), depth)
			f.Required = b.requires(schema, name)
			fields, out = append(fields, f), out+more
		}
	}
	return fields, out
}

// parts are the objects whose keywords hold for a value besides each other: a schema, what
// it refers to, and all of its allOf.
func (b *builder) parts(schema []byte) [][]byte {
	var all [][]byte
	var add func(part []byte, depth int)
	add = func(part []byte, depth int) {
		if b.work -= len(part); depth == 0 || b.work < 0 || len(all) == maxParts || !mcp.IsObject(part) {
			return
		}
		all = append(all, part)
		if ref, ok := mcp.LookupString(part, "$ref"); ok {
			add(b.refer(ref), depth-1)
		}
		list := mcp.Lookup(part, "allOf")
		for e := range mcp.Elements(list) {
			if b.work < 0 || len(all) == maxParts {
				return
			}
			add(e.Of(list), depth-1)
		}
	}
	add(schema, maxRefs)
	return all
}

// refer returns what a reference within the schema names; nil for every other one.
func (b *builder) refer(ref string) []byte {
	path, local := strings.CutPrefix(ref, "#/")
	if !local {
		return nil
	}
	tokens := strings.Split(path, "/")
	for i, t := range tokens {
		if plain, err := url.PathUnescape(t); err == nil {
			t = plain
		}
		tokens[i] = mcp.PointerName(t)
	}
	return mcp.Lookup(b.root, tokens...)
}

// requires tells whether a member of an object has to be there.
func (b *builder) requires(schema []byte, name string) bool {
	for _, part := range b.parts(schema) {
		list := mcp.Lookup(part, "required")
		for e := range mcp.Elements(list) {
			if one, err := mcp.Unquote(e.Of(list)); err == nil && one == name {
				return true
			}
		}
	}
	return false
}

// keyword returns the value of a keyword of a schema or one of its parts.
func keyword(parts [][]byte, name string) []byte {
	for _, part := range parts {
		if v := mcp.Lookup(part, name); v != nil {
			return v
		}
	}
	return nil
}

func word(parts [][]byte, name string) string {
	text, err := mcp.Unquote(keyword(parts, name))
	if err != nil {
		return ""
	}
	return text
}

// field returns the field of one value, and how many members in it are left out.
func (b *builder) field(schema []byte, label, pointer string, value []byte, depth int) (f Field, out int) {
	b.left--
	f = Field{Name: b.prefix + pointer, Label: label, pointer: pointer}
	parts := b.parts(schema)
	f.Description = word(parts, "description")
	if title := word(parts, "title"); title != "" && title != label {
		f.Label = label + ": " + title
	}
	one := b.onlyBranch(parts)
	if one != nil {
		parts = append(b.parts(one), parts...)
	}
	// What a member of a member suggests counts once that is written.
	if preset := keyword(parts, "default"); value == nil && b.presets && depth == 1 && len(preset) <= maxDefault {
		value = preset
	}
	b.work -= len(value)
	kind := typeOf(parts)
	items := keyword(parts, "items")
	switch options := optionsOf(parts, kind, one == nil); {
	case len(options) > 0:
		f.Kind, f.Options = Choice, options
	case kind == "array" && mcp.IsObject(items) && keyword(parts, "prefixItems") == nil && depth < maxDepth:
		if f.Options = optionsOf(b.parts(items), typeOf(b.parts(items)), true); len(f.Options) > 0 {
			f.Kind = Choices
			break
		}
		f.Kind = List
		out = b.rows(&f, items, value, depth)
	case kind == "object" && keyword(parts, "properties") != nil && depth < maxDepth:
		f.Kind = Object
		whole := schema
		if one != nil {
			whole = one
		}
		f.Fields, out = b.members(whole, pointer, value, depth+1)
	case kind == "string":
		f.text(parts)
	case kind == "integer", kind == "number":
		f.Kind = Number
	default:
		f.Kind = JSON
	}
	if string(value) == "null" && len(f.Options) == 0 && f.Kind != JSON {
		value = nil // as if it were not there
	}
	if b.options -= len(f.Options); b.options < 0 || b.work < 0 || !f.holds(value) {
		f.Kind, f.Options, f.Fields = JSON, nil, nil
	}
	f.Wants = wants(&f, kind, parts)
	if f.Kind == File {
		f.Upload = b.prefix + "@" + pointer
	}
	b.fill(&f, value)
	return f, out
}

// holds reports whether a field of this kind can have a value.
func (f *Field) holds(value []byte) bool {
	if value == nil {
		return true
	}
	switch f.Kind {
	case Text, Long, File:
		return value[0] == '"'
	case Number:
		return value[0] == '-' || value[0] >= '0' && value[0] <= '9'
	case Object:
		return mcp.IsObject(value)
	case List, Choices:
		return mcp.IsArray(value)
	case Choice, JSON:
	}
	return true
}

// text says how a text is written.
func (f *Field) text(parts [][]byte) {
	encoding, format := word(parts, "contentEncoding"), word(parts, "format")
	f.base64 = strings.EqualFold(encoding, "base64") || format == "byte" || format == "binary"
	most, err := strconv.Atoi(string(keyword(parts, "maxLength")))
	switch {
	case f.base64, keyword(parts, "contentMediaType") != nil:
		f.Kind = File
	case format == "" && (err != nil || most > maxName):
		f.Kind = Long
	default:
		f.Kind = Text
	}
}

// rows makes the fields of a list: those that were sent, or are in a value.
func (b *builder) rows(f *Field, items, value []byte, depth int) (out int) {
	f.Rows = b.prefix + "#" + f.pointer
	var values [][]byte
	for e := range mcp.Elements(value) {
		values = append(values, e.Of(value))
	}
	n := len(values)
	if b.sent != nil {
		n, _ = strconv.Atoi(b.sent.Get(f.Rows))
	}
	if n > maxRows && b.sent == nil { // only JSON holds it whole
		f.Kind = JSON
		return 0
	}
	for i := range max(1, min(n, maxRows)) {
		if b.left == 0 {
			return out + 1
		}
		var of []byte
		if i < len(values) {
			of = values[i]
		}
		row, more := b.field(items, strconv.Itoa(i+1), f.pointer+"/"+strconv.Itoa(i), of, depth+1)
		f.Fields, out = append(f.Fields, row), out+more
	}
	return out
}

// fill writes a value into a field.
func (b *builder) fill(f *Field, value []byte) {
	if f.Kind == Object || f.Kind == List {
		return
	}
	if b.sent != nil {
		all := b.sent[f.Name]
		for i := range f.Options {
			f.Options[i].Chosen = slices.Contains(all, f.Options[i].Index)
		}
		if len(f.Options) == 0 {
			f.Text = b.sent.Get(f.Name)
		}
		return
	}
	chosen := map[[sha256.Size]byte]bool{}
	switch {
	case value == nil || len(f.Options) == 0:
	case f.Kind == Choice:
		chosen[mcp.Hash(value)] = true
	default:
		for e := range mcp.Elements(value) {
			chosen[mcp.Hash(e.Of(value))] = true
		}
	}
	for i := range f.Options {
		o := &f.Options[i]
		o.Chosen = len(chosen) > 0 && chosen[mcp.Hash(o.raw)]
	}
	text, err := mcp.Unquote(value)
	if err != nil || f.Kind == JSON || f.Kind == Number {
		text = string(value)
	}
	if len(f.Options) == 0 {
		f.Text = text
	}
	if f.Kind == File && !f.base64 {
		f.Text = base64.StdEncoding.EncodeToString([]byte(text))
	}
}

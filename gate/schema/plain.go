package schema

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// plain is a schema that says no more than types, members, items, words, lengths
// and whole bounds, which most tools' schemas do. What fits it is valid, found
// without the library; of what does not, the library says why.
type plain struct {
	types    []string // that a value may have; none is any
	words    []string // that it may be, where it may be nothing else
	required []string
	members  map[string]*plain
	rest     *plain // of members that are not listed; nil forbids them
	items    *plain
	length   span // of a text, in characters
	count    span // of an array
	value    span // of a number
}

// span is what a number may be, both ends included.
type span struct{ least, most int64 }

// unbounded is any number, anything the schema that says nothing.
var (
	unbounded = span{math.MinInt64, math.MaxInt64}
	anything  = &plain{}
)

func (s span) has(n int64) bool { return n >= s.least && n <= s.most }

// understood are the fields of a compiled schema that plainOf looks at, and those
// that do not matter to whether a value is valid.
var understood = []string{
	"Bool", "Types", "Enum", "Required", "Properties", "AdditionalProperties", "Items", "Items2020", "MinItems", "MaxItems", "MinLength", "MaxLength", "Minimum", "Maximum",
	"DraftVersion", "Location", "ID", "Anchor", "Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated",
}

// plainOf returns a compiled schema as a plain one; nil when it says more than
// that.
func plainOf(s *jsonschema.Schema) *plain {
	if s.Bool != nil {
		if *s.Bool {
			return anything
		}
		return nil
	}
	fields := reflect.ValueOf(s).Elem()
	for i := range fields.NumField() {
		if f := fields.Type().Field(i); f.IsExported() && !fields.Field(i).IsZero() && !slices.Contains(understood, f.Name) {
			return nil
		}
	}
	p := &plain{
		required: s.Required, rest: anything, items: anything,
		length: lengths(s.MinLength, s.MaxLength), count: lengths(s.MinItems, s.MaxItems),
	}
	if s.Types != nil {
		p.types = s.Types.ToStrings()
	}
	ok := p.readWords(s) && p.readMembers(s) && p.readItems(s) && p.readBounds(s)
	if !ok {
		return nil
	}
	return p
}

func lengths(least, most *int) span {
	s := unbounded
	if least != nil {
		s.least = int64(*least)
	}
	if most != nil {
		s.most = int64(*most)
	}
	return s
}

func (p *plain) readWords(s *jsonschema.Schema) bool {
	if s.Enum == nil {
		return true
	}
	p.words = []string{}
	for _, v := range s.Enum.Values {
		word, ok := v.(string)
		if !ok {
			return false
		}
		p.words = append(p.words, word)
	}
	return true
}

func (p *plain) readMembers(s *jsonschema.Schema) bool {
	switch rest := s.AdditionalProperties.(type) {
	case nil:
	case bool:
		if !rest {
			p.rest = nil
		}
	case *jsonschema.Schema:
		if p.rest = plainOf(rest); p.rest == nil {
			return false
		}
	default:
		return false
	}
	p.members = make(map[string]*plain, len(s.Properties))
	for name, own := range s.Properties {
		if p.members[name] = plainOf(own); p.members[name] == nil {
			return false
		}
	}
	return true
}

func (p *plain) readItems(s *jsonschema.Schema) bool {
	items := s.Items2020
	if s.Items != nil {
		own, ok := s.Items.(*jsonschema.Schema)
		if !ok || items != nil {
			return false
		}
		items = own
	}
	if items != nil {
		p.items = plainOf(items)
	}
	return p.items != nil
}

func (p *plain) readBounds(s *jsonschema.Schema) bool {
	p.value = unbounded
	for _, b := range []struct {
		bound *big.Rat
		to    *int64
	}{{s.Minimum, &p.value.least}, {s.Maximum, &p.value.most}} {
		if b.bound == nil {
			continue
		}
		if !b.bound.IsInt() || !b.bound.Num().IsInt64() {
			return false
		}
		*b.to = b.bound.Num().Int64()
	}
	return true
}

// fits tells whether a value is valid for certain.
func (p *plain) fits(value any) bool {
	if p == anything {
		return true
	}
	if p.words != nil {
		text, ok := value.(string)
		if !ok || !slices.Contains(p.words, text) {
			return false
		}
	}
	switch value := value.(type) {
	case string:
		return p.may("string") && (p.length == unbounded || p.length.has(int64(utf8.RuneCountInString(value))))
	case bool:
		return p.may("boolean")
	case nil:
		return p.may("null")
	case json.Number:
		return p.fitsNumber(string(value))
	case []any:
		if !p.may("array") || !p.count.has(int64(len(value))) {
			return false
		}
		return !slices.ContainsFunc(value, func(v any) bool { return !p.items.fits(v) })
	case map[string]any:
		return p.may("object") && p.fitsObject(value)
	}
	return false
}

// may tells whether a value may have a type.
func (p *plain) may(name string) bool { return len(p.types) == 0 || slices.Contains(p.types, name) }

func (p *plain) fitsNumber(text string) bool {
	if p.may("number") && p.value == unbounded {
		return true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && (p.may("integer") || p.may("number")) && p.value.has(n)
}

func (p *plain) fitsObject(object map[string]any) bool {
	for _, name := range p.required {
		if _, ok := object[name]; !ok {
			return false
		}
	}
	for name, v := range object {
		own := p.members[name]
		if own == nil {
			own = p.rest
		}
		if own == nil || !own.fits(v) {
			return false
		}
	}
	return true
}

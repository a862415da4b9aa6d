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

// plain is a simple schema: types, members, items, enums of words, lengths and integer
// bounds. Most tools' schemas are like this. A value that fits is valid, without the
// library's work. For a value that does not fit, the library finds the reason.
type plain struct {
	types    []string // the allowed types; none allows any
	words    []string // the allowed words; nil allows any
	required []string
	members  map[string]*plain
	rest     *plain // for members that are not listed; nil forbids them
	items    *plain
	length   span // of a string, in characters
	count    span // of an array
	value    span // of a number
}

// span is a range of numbers, including both ends.
type span struct{ least, most int64 }

// unbounded allows any number. anything is the schema that allows any value.
var (
	unbounded = span{math.MinInt64, math.MaxInt64}
	anything  = &plain{}
)

func (s span) has(n int64) bool { return n >= s.least && n <= s.most }

// understood are the fields of a compiled schema that plainOf reads, and those that do
// not affect validity.
var understood = []string{
	"Bool", "Types", "Enum", "Required", "Properties", "AdditionalProperties", "Items", "Items2020", "MinItems", "MaxItems", "MinLength", "MaxLength", "Minimum", "Maximum",
	"DraftVersion", "Location", "ID", "Anchor", "Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated",
}

// plainOf converts a compiled schema to a plain one; nil when the schema says more
// than a plain one can.
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

// fits tells whether a value is certainly valid.
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

// may tells whether a type is allowed.
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

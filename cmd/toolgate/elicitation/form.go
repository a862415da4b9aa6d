// Package elicitation asks a person on a terminal what the server of a tool wants to know
// (2026-07-28 client/elicitation). What a server wrote is shown on lines of its own, behind
// a bar, so that it cannot pass for what toolgate says.
package elicitation

import (
	"errors"
	"fmt"
	"math/big"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/mcp"
)

// What a question may be. A larger one is refused, because nobody would read it.
const (
	maxFields  = 50
	maxChoices = 200
	maxText    = 8000 // characters of a message or description that are shown
	maxURL     = 4000 // bytes
)

// kind is what a field holds, in the words of JSON Schema.
type kind string

const (
	text    kind = "string"
	number  kind = "number"
	integer kind = "integer"
	boolean kind = "boolean"
	choice  kind = "choice"  // one of several texts
	choices kind = "choices" // some of several texts
)

// field is one member of a form.
type field struct {
	name, title, description string
	kind                     kind
	required                 bool
	preset                   []byte // JSON; nil for none
	format                   string
	options                  []option
	least, most              *big.Float // of a number; nil for no limit
	min, max                 int        // characters of a text, or choices; max is -1 for no limit
}

// option is one value to choose, with its name for a person.
type option struct{ value, title string }

// form reads the schema of a form. The error says what toolgate cannot ask for.
func form(schema []byte) ([]field, error) {
	properties, list := mcp.Lookup(schema, "properties"), mcp.Lookup(schema, "required")
	var required []string
	for e := range mcp.Elements(list) {
		if name, err := mcp.Unquote(e.Of(list)); err == nil {
			required = append(required, name)
		}
	}
	var all []field
	for m := range mcp.Members(properties) {
		name, err := mcp.Unquote(m.Key(properties))
		if err != nil {
			return nil, errors.New("the form has a field whose name cannot be read")
		}
		if len(all) == maxFields {
			return nil, fmt.Errorf("the form has more than %d fields", maxFields)
		}
		f, err := readField(name, m.Value.Of(properties))
		if err != nil {
			return nil, fmt.Errorf("the field %s of the form %w", name, err)
		}
		f.required = slices.Contains(required, name)
		all = append(all, f)
	}
	return all, nil
}

// readField reads one field. Its default counts only if it is a value of the field.
func readField(name string, schema []byte) (field, error) {
	f := field{name: name, max: -1}
	f.title, _ = mcp.LookupString(schema, "title")
	f.description, _ = mcp.LookupString(schema, "description")
	f.format, _ = mcp.LookupString(schema, "format")
	of, _ := mcp.LookupString(schema, "type")
	f.options = optionsOf(schema)
	switch {
	case len(f.options) > 0 && (of == "string" || of == ""):
		f.kind = choice
	case of == "array":
		f.kind, f.options = choices, optionsOf(mcp.Lookup(schema, "items"))
		if len(f.options) == 0 {
			return f, errors.New("is a list of anything, which no form may ask for")
		}
		f.min, f.max = limit(schema, "minItems", 0), limit(schema, "maxItems", -1)
	case of == "string":
		f.kind = text
		f.min, f.max = limit(schema, "minLength", 0), limit(schema, "maxLength", -1)
	case of == "number", of == "integer":
		f.kind = kind(of)
		f.least, f.most = bound(schema, "minimum"), bound(schema, "maximum")
	case of == "boolean":
		f.kind = boolean
	default:
		return f, errors.New("is neither text, a number, true or false, nor a choice, and no form may ask for anything else")
	}
	if len(f.options) > maxChoices {
		return f, fmt.Errorf("has more than %d choices", maxChoices)
	}
	if preset := mcp.Lookup(schema, "default"); preset != nil && f.holds(preset) {
		f.preset = preset
	}
	return f, nil
}

// optionsOf reads the values of an enum in each of the forms that revisions have for it.
func optionsOf(schema []byte) []option {
	var all []option
	values, titles := mcp.Lookup(schema, "enum"), mcp.Lookup(schema, "enumNames")
	var named []string
	for e := range mcp.Elements(titles) {
		title, _ := mcp.Unquote(e.Of(titles))
		named = append(named, title)
	}
	for e := range mcp.Elements(values) {
		value, err := mcp.Unquote(e.Of(values))
		if err != nil {
			continue
		}
		o := option{value, value}
		if len(all) < len(named) && named[len(all)] != "" {
			o.title = named[len(all)]
		}
		all = append(all, o)
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		list := mcp.Lookup(schema, key)
		for e := range mcp.Elements(list) {
			value, ok := mcp.LookupString(e.Of(list), "const")
			if !ok {
				continue
			}
			o := option{value, value}
			if title, ok := mcp.LookupString(e.Of(list), "title"); ok && title != "" {
				o.title = title
			}
			all = append(all, o)
		}
	}
	return all
}

// limit reads a whole number; otherwise if there is none.
func limit(schema []byte, key string, otherwise int) int {
	n, err := strconv.Atoi(string(mcp.Lookup(schema, key)))
	if err != nil || n < 0 {
		return otherwise
	}
	return n
}

// bound reads a number; nil if there is none.
func bound(schema []byte, key string) *big.Float { return float(string(mcp.Lookup(schema, key))) }

// float reads a number of JSON; nil if it is none, or has a senseless exponent.
func float(text string) *big.Float {
	if len(text) > 100 || mcp.Validate([]byte(text), mcp.Limits{}) != nil {
		return nil
	}
	if f, err := strconv.ParseFloat(text, 64); err != nil || f == 0 && strings.Trim(text, "-0.eE+") != "" {
		return nil
	}
	f, _, err := big.ParseFloat(text, 10, 512, big.ToNearestEven)
	if err != nil {
		return nil
	}
	return f
}

// holds tells whether a JSON value is one of the field.
func (f *field) holds(value []byte) bool {
	switch f.kind {
	case choices:
		var picked []string
		for e := range mcp.Elements(value) {
			one, err := mcp.Unquote(e.Of(value))
			if err != nil {
				return false
			}
			picked = append(picked, one)
		}
		return len(value) > 0 && value[0] == '[' && f.checkChoices(picked) == nil
	case text, choice:
		typed, err := mcp.Unquote(value)
		return err == nil && f.check(typed) == nil
	case boolean:
		return string(value) == "true" || string(value) == "false"
	default:
		return f.check(string(value)) == nil
	}
}

// read returns the JSON of what a person typed. The error says what to type.
func (f *field) read(typed string) ([]byte, error) {
	switch f.kind {
	case choice:
		o, err := f.pick(typed)
		if err != nil {
			return nil, err
		}
		return mcp.Quote(o.value), nil
	case choices:
		var picked []string
		if word := strings.ToLower(strings.TrimSpace(typed)); word != "none" && word != "" {
			for one := range strings.SplitSeq(typed, ",") {
				o, err := f.pick(one)
				if err != nil {
					return nil, err
				}
				if !slices.Contains(picked, o.value) {
					picked = append(picked, o.value)
				}
			}
		}
		if err := f.checkChoices(picked); err != nil {
			return nil, err
		}
		words := make([]string, len(picked))
		for i, value := range picked {
			words[i] = string(mcp.Quote(value))
		}
		return []byte("[" + strings.Join(words, ",") + "]"), nil
	case boolean:
		switch strings.ToLower(strings.TrimSpace(typed)) {
		case "yes", "y", "true":
			return []byte("true"), nil
		case "no", "n", "false":
			return []byte("false"), nil
		}
		return nil, errors.New("type yes or no")
	case text:
		return mcp.Quote(typed), f.check(typed)
	default:
		typed = strings.TrimSpace(typed)
		return []byte(typed), f.check(typed)
	}
}

// pick returns the option with a number in the list, or with a value or title.
func (f *field) pick(typed string) (option, error) {
	typed = strings.TrimSpace(typed)
	if n, err := strconv.Atoi(typed); err == nil && n >= 1 && n <= len(f.options) {
		return f.options[n-1], nil
	}
	for _, o := range f.options {
		if o.value == typed || strings.EqualFold(o.title, typed) {
			return o, nil
		}
	}
	return option{}, fmt.Errorf("type a number from 1 to %d, or one of the values", len(f.options))
}

// checkChoices checks how many values are chosen, and that each may be.
func (f *field) checkChoices(picked []string) error {
	for _, value := range picked {
		if !slices.ContainsFunc(f.options, func(o option) bool { return o.value == value }) {
			return fmt.Errorf("%s is not one of the values", value)
		}
	}
	if len(picked) < f.min || f.max >= 0 && len(picked) > f.max {
		return fmt.Errorf("choose %s", amount(f.min, f.max, "value"))
	}
	return nil
}

// check checks a text or a number against the schema of the field.
func (f *field) check(value string) error {
	switch f.kind {
	case choice:
		if !slices.ContainsFunc(f.options, func(o option) bool { return o.value == value }) {
			return errors.New("type one of the values")
		}
		return nil
	case text:
		if n := utf8.RuneCountInString(value); n < f.min || f.max >= 0 && n > f.max {
			return fmt.Errorf("type %s; these are %d", amount(f.min, f.max, "character"), n)
		}
		return f.checkFormat(value)
	case choices, boolean, number, integer: // of these, only numbers get here
	}
	n := float(value)
	switch {
	case n == nil && f.kind == integer:
		return errors.New("type a whole number, such as 3")
	case n == nil:
		return errors.New("type a number, such as 2.5")
	case f.kind == integer && !n.IsInt():
		return errors.New("type a whole number, such as 3")
	case f.least != nil && n.Cmp(f.least) < 0:
		return fmt.Errorf("type a number of at least %s", f.least.Text('g', 20))
	case f.most != nil && n.Cmp(f.most) > 0:
		return fmt.Errorf("type a number of at most %s", f.most.Text('g', 20))
	}
	return nil
}

// checkFormat checks the formats that forms may ask for. Others are left to the server.
func (f *field) checkFormat(value string) error {
	switch f.format {
	case "email":
		if a, err := mail.ParseAddress(value); err != nil || a.Address != value {
			return errors.New("type a mail address, such as ann@example.com")
		}
	case "uri":
		if u, err := url.Parse(value); err != nil || !u.IsAbs() || strings.ContainsAny(value, " \t") {
			return errors.New("type a whole address, such as https://example.com/page")
		}
	case "date":
		if _, err := time.Parse(time.DateOnly, value); err != nil {
			return errors.New("type a date, such as 2026-07-28")
		}
	case "date-time":
		if _, err := time.Parse(time.RFC3339, value); err != nil {
			return errors.New("type a date and time, such as 2026-07-28T09:30:00Z")
		}
	}
	return nil
}

// amount says how many of something there may be; most is -1 for no limit.
func amount(least, most int, noun string) string {
	plural := noun + "s"
	switch {
	case least == most && least == 1:
		return "1 " + noun
	case least == most:
		return fmt.Sprintf("%d %s", least, plural)
	case most < 0 && least == 1:
		return "at least 1 " + noun
	case most < 0:
		return fmt.Sprintf("at least %d %s", least, plural)
	case least == 0 && most == 1:
		return "at most 1 " + noun
	case least == 0:
		return fmt.Sprintf("at most %d %s", most, plural)
	}
	return fmt.Sprintf("%d to %d %s", least, most, plural)
}

// wants says what a field holds, for its heading.
func (f *field) wants() string {
	switch f.kind {
	case text:
		what := map[string]string{"email": "a mail address", "uri": "an address", "date": "a date", "date-time": "a date and time"}[f.format]
		if what == "" {
			what = "text"
		}
		if f.min > 0 || f.max >= 0 {
			what += " of " + amount(f.min, f.max, "character")
		}
		return what
	case choices:
		if f.min > 0 || f.max >= 0 {
			return amount(f.min, f.max, "value")
		}
		return "any number of values"
	case choice:
		return "one value"
	case boolean:
		return "yes or no"
	case number, integer:
	}
	what := map[kind]string{number: "a number", integer: "a whole number"}[f.kind]
	switch {
	case f.least != nil && f.most != nil:
		what += fmt.Sprintf(" from %s to %s", f.least.Text('g', 20), f.most.Text('g', 20))
	case f.least != nil:
		what += " of at least " + f.least.Text('g', 20)
	case f.most != nil:
		what += " of at most " + f.most.Text('g', 20)
	}
	return what
}

// shown returns a value of the field for a person.
func (f *field) shown(value []byte) string {
	titled := func(text string) string {
		for _, o := range f.options {
			if o.value == text {
				return o.title
			}
		}
		return text
	}
	switch {
	case value == nil:
		return "left out"
	case f.kind == boolean && string(value) == "true":
		return "yes"
	case f.kind == boolean:
		return "no"
	case f.kind == choices:
		var all []string
		for e := range mcp.Elements(value) {
			one, _ := mcp.Unquote(e.Of(value))
			all = append(all, titled(one))
		}
		if len(all) == 0 {
			return "none"
		}
		return strings.Join(all, ", ")
	}
	if text, err := mcp.Unquote(value); err == nil {
		return titled(text)
	}
	return string(value)
}

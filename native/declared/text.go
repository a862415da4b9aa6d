package declared

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// template is a text with places, written {name}; {{ and }} are braces.
type template []piece

// piece is a literal, or the name of a place.
type piece struct {
	text  string
	place bool
}

func parseTemplate(text string) (template, error) {
	var out template
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			out = append(out, piece{text: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c != '{' && c != '}':
			literal.WriteByte(c)
		case i+1 < len(text) && text[i+1] == c:
			literal.WriteByte(c)
			i++
		case c == '}':
			return nil, fmt.Errorf("%q has a } that ends nothing; }} is one brace", text)
		default:
			end := strings.IndexByte(text[i:], '}')
			if end < 2 || strings.ContainsAny(text[i+1:i+end], "{ ") {
				return nil, fmt.Errorf("%q has a { that begins no {name}; {{ is one brace", text)
			}
			flush()
			out = append(out, piece{text: text[i+1 : i+end], place: true})
			i += end
		}
	}
	flush()
	return out, nil
}

// names returns the names of the places.
func (t template) names() []string {
	var out []string
	for _, p := range t {
		if p.place {
			out = append(out, p.text)
		}
	}
	return out
}

// alone returns the name of the place that is the whole text.
func (t template) alone() (name string, ok bool) {
	if len(t) == 1 && t[0].place {
		return t[0].text, true
	}
	return "", false
}

// fill puts values into the places.
func (t template) fill(v values) (string, error) {
	var out strings.Builder
	for _, p := range t {
		if !p.place {
			out.WriteString(p.text)
			continue
		}
		text, err := v.text(p.text)
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// values are the arguments of a call over the defaults of their schema, raw JSON
// by name.
type values map[string][]byte

func (c *compiled) values(args []byte) values {
	out := make(values, len(c.defaults))
	maps.Copy(out, c.defaults)
	for m := range mcp.Members(args) {
		if name, err := mcp.Unquote(m.Key(args)); err == nil {
			out[name] = m.Value.Of(args)
		}
	}
	return out
}

// object returns the values as a JSON object.
func (v values) object() []byte {
	out := []byte("{}")
	for _, name := range slices.Sorted(maps.Keys(v)) {
		out = mcp.SetMember(out, name, v[name])
	}
	return out
}

// text returns a value as a text: a string as it is, a number or a truth value as
// JSON writes it.
func (v values) text(name string) (string, error) {
	raw, ok := v[name]
	switch {
	case !ok:
		return "", problemf("The argument %s is missing.", name)
	case len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || raw[0] == 'n':
		return "", problemf("The argument %s must be a text, a number or true or false.", name)
	case raw[0] != '"':
		return string(raw), nil
	}
	text, err := mcp.Unquote(raw)
	if err != nil {
		return "", problemf("The argument %s cannot be read.", name)
	}
	if strings.IndexByte(text, 0) >= 0 {
		return "", problemf("The argument %s holds a zero character.", name)
	}
	return text, nil
}

// texts returns the texts of a value for a query: none where it is not there or
// null, and those of its elements where it is a list.
func (v values) texts(name string) ([]string, error) {
	raw, ok := v[name]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	if len(raw) == 0 || raw[0] != '[' {
		text, err := v.text(name)
		return []string{text}, err
	}
	var out []string
	for e := range mcp.Elements(raw) {
		text, err := (values{name: e.Of(raw)}).text(name)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// problem is what is wrong with a call, in a sentence that a model can act on.
type problem string

func (p problem) Error() string { return string(p) }

func problemf(format string, args ...any) error { return problem(fmt.Sprintf(format, args...)) }

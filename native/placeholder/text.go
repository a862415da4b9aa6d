package placeholder

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Text is a text with places, written {name}; {{ and }} are braces.
type Text []Piece

// Piece is a literal, or the name of a place.
type Piece struct {
	Text  string
	Place bool
}

// ParseText reads a text with places.
func ParseText(text string) (Text, error) {
	var out Text
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			out = append(out, Piece{Text: literal.String()})
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
			out = append(out, Piece{Text: text[i+1 : i+end], Place: true})
			i += end
		}
	}
	flush()
	return out, nil
}

// Names returns the names of the places.
func (t Text) Names() []string {
	var out []string
	for _, p := range t {
		if p.Place {
			out = append(out, p.Text)
		}
	}
	return out
}

// Alone returns the name of the place that is the whole text.
func (t Text) Alone() (name string, ok bool) {
	if len(t) == 1 && t[0].Place {
		return t[0].Text, true
	}
	return "", false
}

// Fill puts values into the places.
func (t Text) Fill(v Values) (string, error) {
	var out strings.Builder
	for _, p := range t {
		if !p.Place {
			out.WriteString(p.Text)
			continue
		}
		text, err := v.Text(p.Text)
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// Values are what goes into the places, raw JSON by the names of the places.
type Values map[string][]byte

// Object returns the values as a JSON object.
func (v Values) Object() []byte {
	out := []byte("{}")
	for _, name := range slices.Sorted(maps.Keys(v)) {
		out = mcp.SetMember(out, name, v[name])
	}
	return out
}

// Text returns a value as a text: a string as it is, a number or a truth value as
// JSON writes it.
func (v Values) Text(name string) (string, error) {
	raw, ok := v[name]
	switch {
	case !ok:
		return "", Problemf("The argument %s is missing.", name)
	case len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || raw[0] == 'n':
		return "", Problemf("The argument %s must be a text, a number or true or false.", name)
	case raw[0] != '"':
		return string(raw), nil
	}
	text, err := mcp.Unquote(raw)
	if err != nil {
		return "", Problemf("The argument %s cannot be read.", name)
	}
	if strings.IndexByte(text, 0) >= 0 {
		return "", Problemf("The argument %s holds a zero character.", name)
	}
	return text, nil
}

// Texts returns the texts of a value for a query: none where it is not there or
// null, and those of its elements where it is a list.
func (v Values) Texts(name string) ([]string, error) {
	raw, ok := v[name]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	if len(raw) == 0 || raw[0] != '[' {
		text, err := v.Text(name)
		return []string{text}, err
	}
	var out []string
	for e := range mcp.Elements(raw) {
		text, err := (Values{name: e.Of(raw)}).Text(name)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// Problem is what is wrong with a call, in a sentence that a model can act on.
type Problem string

// Error implements error.
func (p Problem) Error() string { return string(p) }

// Problemf returns a [Problem].
func Problemf(format string, args ...any) error { return Problem(fmt.Sprintf(format, args...)) }

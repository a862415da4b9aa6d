package declared

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/internal/mcp"
)

// This file makes tools of templates. A template is a declared tool that is not served. It
// fixes everything that is sent or run; a tool made of it has a name, a description and an
// input schema of its own, and takes no more arguments than the template.

const (
	// MaxDefinition bounds the input schema of a tool made of a template, in bytes.
	MaxDefinition = 16 << 10
	// maxDescription bounds its description, in bytes.
	maxDescription = 2 << 10
)

// Definition is what a tool made of a template has of its own.
type Definition struct {
	Name, Description string
	Input             json.RawMessage // JSON Schema of the arguments, an object
}

// Misfit is why a definition does not fit its template: the member that is wrong, and the
// reason in words for whoever wrote it.
type Misfit struct{ Member, Reason string }

// Error implements error.
func (m *Misfit) Error() string { return m.Member + ": " + m.Reason }

func misfit(member, format string, args ...any) error {
	return &Misfit{member, fmt.Sprintf(format, args...)}
}

// Derive returns the tool that a definition makes of a template, in a namespace. The
// error is a [*Misfit]. What a schema checker has against the schema is not looked at.
func (t *Settings) Derive(namespace string, d *Definition) (Settings, error) {
	if !t.Template {
		return Settings{}, misfit("template", "%s is no template", t.Name)
	}
	if most := maxName - len(namespace) - len("__"); d.Name == "" || len(d.Name) > most || strings.Trim(d.Name, nameLetters) != "" {
		return Settings{}, misfit("name", "it has 1 to %d letters, digits, _ and -", most)
	}
	if err := checkDescription(d.Description); err != nil {
		return Settings{}, err
	}
	if err := t.fitsInput(d.Input); err != nil {
		return Settings{}, err
	}
	out := *t
	out.Name, out.Namespace, out.Title, out.Description = d.Name, namespace, "", d.Description
	out.Template, out.InputSchema = false, slices.Clone(d.Input)
	out.RunAs = ""
	out.Of, out.Within = t.Namespace+"__"+t.Name, t.InputSchema
	if len(out.Within) == 0 {
		out.Within = noInput
	}
	return out, nil
}

func checkDescription(text string) error {
	switch {
	case strings.TrimSpace(text) == "" || len(text) > maxDescription:
		return misfit("description", "it has 1 to %d bytes", maxDescription)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) }):
		return misfit("description", "it holds characters that nobody sees; write text and line breaks alone")
	}
	return nil
}

// fitsInput holds the input schema of a definition against that of the template.
func (t *Settings) fitsInput(input []byte) error {
	const member = "input_schema"
	if len(input) > MaxDefinition {
		return misfit(member, "it has %d bytes and may have %d", len(input), MaxDefinition)
	}
	if err := mcp.Validate(input, mcp.Limits{}); err != nil {
		return misfit(member, "it cannot be read: %v", err)
	}
	if kind, _ := mcp.LookupString(input, "type"); !mcp.IsObject(input) || kind != "object" {
		return misfit(member, `it is an object with "type": "object"`)
	}
	takes, has := propertiesOf(t.InputSchema), propertiesOf(input)
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if _, there := takes[name]; !there {
			return misfit(member+".properties."+name, "the template takes no %s; it takes %s", name, listOf(takes))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(takes)) {
		if p := takes[name]; p.required && p.preset == nil && !has[name].required && has[name].preset == nil {
			return misfit(member+".required", "the template needs %s: require it, or give it a default", name)
		}
	}
	return nil
}

// property is what a schema says of an argument.
type property struct {
	required bool
	preset   []byte // its default; nil for none
}

// propertiesOf reads the properties of a schema.
func propertiesOf(schema []byte) map[string]property {
	out := make(map[string]property)
	properties := mcp.Lookup(schema, "properties")
	for m := range mcp.Members(properties) {
		if name, err := mcp.Unquote(m.Key(properties)); err == nil {
			out[name] = property{preset: mcp.Lookup(m.Value.Of(properties), "default")}
		}
	}
	required := mcp.Lookup(schema, "required")
	for e := range mcp.Elements(required) {
		name, err := mcp.Unquote(e.Of(required))
		if p, there := out[name]; err == nil && there {
			p.required = true
			out[name] = p
		}
	}
	return out
}

func listOf(of map[string]property) string {
	if len(of) == 0 {
		return "no arguments"
	}
	return strings.Join(slices.Sorted(maps.Keys(of)), ", ")
}

// Pin returns a hash of everything that a template makes its tools do: another host,
// argument or limit gives another hash. Titles, descriptions and the values of headers and
// query parameters do not count, so that a token can be renewed.
func (t *Settings) Pin() (string, error) {
	of := make(map[string]any)
	v := reflect.ValueOf(*t)
	for i := range v.NumField() {
		switch key := v.Type().Field(i).Tag.Get("config"); {
		case key == "-" || key == "title" || key == "description" || v.Field(i).IsZero():
		case key == "env":
			of[key] = secret.Reveal(t.Env) // PATH, for instance, decides what runs
		default:
			of[key] = v.Field(i).Interface() // secrets are written as redacted
		}
	}
	raw, err := json.Marshal(of)
	if err != nil {
		return "", fmt.Errorf("hash the template %s: %w", t.Name, err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

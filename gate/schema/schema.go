package schema

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a vetted and compiled schema. It is immutable and safe for concurrent use.
// The zero Schema, and a nil one, accept nothing.
type Schema struct {
	compiled *jsonschema.Schema
	vetted   *vetted
	plain    *plain // nil where the schema is not a plain one
	object   bool   // the value must also be an object
}

// location is the schema's URL for the library.
const location = "toolgate:///schema"

// noLoader refuses to load anything. After vetting there is nothing left to load.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("a reference leaves the document")
}

// compile vets a schema and compiles it with the library. Its errors are
// [Quarantined].
func compile(raw []byte, keepFormat bool) (s *Schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, refuse("", "preparing it failed: %s", clip(fmt.Sprint(p)))
		}
	}()
	absent := len(raw) == 0 || string(raw) == "null"
	if absent {
		raw = []byte(`{}`)
	}
	v, err := vet(raw, keepFormat)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(v.draft)
	c.UseLoader(noLoader{})
	if keepFormat {
		c.AssertFormat()
	}
	if err := c.AddResource(location, v.doc); err != nil {
		return nil, refuse("", "%s", clip(err.Error()))
	}
	compiled, err := c.Compile(location)
	if err != nil {
		return nil, notCompiled(err)
	}
	return &Schema{compiled: compiled, vetted: v, plain: plainOf(compiled), object: absent}, nil
}

// notCompiled explains why the library refuses a schema.
func notCompiled(err error) error {
	invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !ok {
		return refuse("", "%s", clip(err.Error()))
	}
	_, fragment, _ := strings.Cut(invalid.URL, "#")
	base, _ := url.PathUnescape(fragment)
	tree, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err)
	if !ok {
		return refuse(base, "%s", clip(err.Error()))
	}
	var e explainer
	problems := e.problems(tree)
	if len(problems) == 0 {
		return refuse(base, "it is not a valid schema")
	}
	return refuse(base+problems[0].Pointer, "it is not a valid schema: %s", problems[0].Problem)
}

// Partial lists the JSON Pointers of the patterns that are not checked, because RE2
// does not support them; nil when everything is checked.
func (s *Schema) Partial() []string {
	if s == nil || s.vetted == nil {
		return nil
	}
	return slices.Clone(s.vetted.stripped)
}

// Check validates arguments against the schema. Nil arguments are an empty object.
func (s *Schema) Check(arguments *Arguments) (result *Result) {
	if s == nil || s.compiled == nil {
		return wrong(Problem{Problem: "there is no schema to check against"})
	}
	defer func() {
		if p := recover(); p != nil {
			result = wrong(Problem{Problem: "checking the arguments failed: " + clip(fmt.Sprint(p))})
		}
	}()
	value, values, problem := arguments.read()
	if problem != nil {
		return wrong(*problem)
	}
	if _, ok := value.(map[string]any); s.object && !ok {
		return wrong(Problem{Problem: "is " + article(typeOf(value)), Fix: "send an object"})
	}
	if s.plain != nil && s.plain.fits(value) {
		return &Result{Valid: true, Partial: len(s.vetted.stripped) > 0}
	}
	m := meter{left: budget(values)}
	if !m.allows(s.vetted.root, value) {
		return wrong(Problem{
			Problem: "the arguments would take too long to check against the tool's schema",
			Fix:     "send fewer, shorter or less deeply nested values",
		})
	}
	err := s.compiled.Validate(value)
	if err == nil {
		return &Result{Valid: true, Partial: len(s.vetted.stripped) > 0}
	}
	tree, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return wrong(Problem{Problem: clip(err.Error())})
	}
	e := explainer{nodes: s.vetted.nodes, value: value}
	return newResult(e.problems(tree), len(s.vetted.stripped) > 0)
}

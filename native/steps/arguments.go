package steps

import (
	"maps"
	"slices"
	"strconv"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/placeholder"
)

// CheckArguments returns what the arguments of a step have wrong for a tool with an input
// schema, as far as they are known before the tool runs: what is missing, what the tool
// does not take, and which values do not fit. nil is the schema of a tool without arguments.
func (d *Declaration) CheckArguments(i int, input []byte) []Problem {
	with := d.Steps[i].With
	if len(with) == 0 {
		with = []byte("{}")
	}
	if input == nil {
		input = []byte(`{"type":"object","additionalProperties":false}`)
	}
	c := &compiler{inputs: typesOf(d.Input), checker: schema.New(schema.Options{})}
	if constant(with) {
		c.fits(i, []string{"with"}, with, input)
		return c.problems
	}
	properties := mcp.Lookup(input, "properties")
	closed := string(mcp.Lookup(input, "additionalProperties")) == "false" && mcp.Lookup(input, "patternProperties") == nil
	schemas, given := make(map[string][]byte), make(map[string]bool)
	for m := range mcp.Members(properties) {
		if name, err := mcp.Unquote(m.Key(properties)); err == nil {
			schemas[name] = m.Value.Of(properties)
		}
	}
	for m := range mcp.Members(with) {
		name, err := mcp.Unquote(m.Key(with))
		if err != nil {
			continue
		}
		given[name] = true
		value, path := m.Value.Of(with), []string{"with", name}
		switch of := schemas[name]; {
		case of == nil && closed:
			hint := "remove it"
			if near := tree.Nearest(name, slices.Sorted(maps.Keys(schemas))); near != "" {
				hint = "did you mean " + near + "?"
			}
			c.wrong(i, path, hint, "the tool takes no %s", name)
		case of == nil:
		case constant(value):
			if mcp.Lookup(of, "$ref") == nil { // which is of the whole schema
				c.fits(i, path, value, of)
			}
		default:
			c.typed(i, path, value, of)
		}
	}
	required := mcp.Lookup(input, "required")
	for e := range mcp.Elements(required) {
		if name, err := mcp.Unquote(e.Of(required)); err == nil && !given[name] {
			c.wrong(i, []string{"with"}, "add "+name, "the tool requires %s", name)
		}
	}
	return c.problems
}

// fits checks a value without places.
func (c *compiler) fits(i int, path []string, value, input []byte) {
	s, err := c.checker.Compile(input)
	if err != nil {
		return // a mistake of that tool's, and said there
	}
	for _, p := range s.Check(schema.ReadArguments(value)).Problems {
		at := slices.Clone(path)
		if r, err := parsePointer(p.Pointer); err == nil {
			at = append(append(at, r.name), r.tokens...)
		}
		c.wrong(i, at, p.Fix, "%s", p.Problem)
	}
}

// typed checks the type of a string that is one argument of the tool itself.
func (c *compiler) typed(i int, path []string, value, of []byte) {
	text, err := mcp.Unquote(value)
	if err != nil {
		return
	}
	places, err := placeholder.ParseText(text)
	if err != nil {
		return
	}
	name, alone := places.Alone()
	is, wants := c.inputs[name], ""
	if wants, _ = mcp.LookupString(of, "type"); !alone {
		is = "string"
	}
	if is == "" || wants == "" || is == wants || is == "integer" && wants == "number" {
		return
	}
	if alone {
		c.wrong(i, path, "", "the argument %s has the type %s, and the tool takes the type %s", name, is, wants)
	} else {
		c.wrong(i, path, "write one placeholder alone", "it is a text, and the tool takes the type %s", wants)
	}
}

// constant tells whether a value has no places.
func constant(raw []byte) bool {
	v, err := placeholder.ParseValue(raw)
	return err != nil || len(v.Names()) == 0
}

// Report adds problems of a tool, whose declaration is a node at a path, to those of its
// file, each at its line.
func Report(p *tree.Problems, n *tree.Node, path string, problems []Problem) {
	for i := range problems {
		found := &problems[i]
		at, where := n, path
		keys := found.Path
		if found.Step >= 0 {
			keys = append([]string{"steps", strconv.Itoa(found.Step)}, keys...)
		}
		for _, key := range keys {
			next := at.Get(key)
			if at.IsList() {
				index, _ := strconv.Atoi(key)
				where, next = where+"["+key+"]", at.Item(index)
			} else {
				where = tree.Join(where, key)
			}
			if next != nil { // else it is missing
				at = next
			}
		}
		p.At(at, where, found.Hint, "%s", found.Text)
	}
}

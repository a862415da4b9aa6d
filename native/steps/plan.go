package steps

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/placeholder"
)

// Plan is a list of steps that can be run. It is immutable and safe for concurrent use.
type Plan struct {
	steps    []step
	answer   answer
	maxBytes int64
}

// step is one of a plan.
type step struct {
	id, call   string
	with       placeholder.Value
	each       *reference // nil makes one call
	max, width int
	conditions []condition
	onError    string
}

// answer is what a tool returns: the value at a place, or one with places in it.
type answer struct {
	at   *reference
	with placeholder.Value
}

// Declaration is a tool as it is declared.
type Declaration struct {
	Steps  []Settings
	Answer json.RawMessage // a JSON pointer, or a JSON value with places; nil is the answer of the last step
	Input  []byte          // JSON Schema of the arguments, an object; nil takes none
	// MaxBytes bounds the answers of all steps together, and the result.
	MaxBytes int64
}

// Problem is what is wrong with a declaration.
type Problem struct {
	Step int      // index; -1 for the tool itself
	Path []string // keys below the step, or below the tool
	Text string
	Hint string
}

// Error implements error.
func (p *Problem) Error() string { return p.Text }

// Compile returns the plan of a declaration. The problems are everything that is wrong
// with it by itself; whether the tools exist is not looked at.
func Compile(d *Declaration) (*Plan, []Problem) {
	c := &compiler{inputs: typesOf(d.Input), ids: make(map[string]int), checker: schema.New(schema.Options{})}
	plan := &Plan{maxBytes: d.MaxBytes}
	switch {
	case len(d.Steps) == 0:
		c.wrong(-1, []string{"steps"}, "add steps: [{ id: NAME, call: TOOL }]", "is required and missing")
	case len(d.Steps) > MaxSteps:
		c.wrong(-1, []string{"steps"}, "make two tools of it, of which one calls the other", "there are more than %d steps", MaxSteps)
	}
	for i := range d.Steps {
		c.id(i, d.Steps[i].ID)
	}
	known := make(map[string]bool) // what a step can use
	for name := range c.inputs {
		known[name] = true
	}
	for i := range d.Steps {
		plan.steps = append(plan.steps, c.step(i, &d.Steps[i], known))
		known[d.Steps[i].ID] = true
	}
	plan.answer = c.answer(d, known)
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	return plan, nil
}

// Calls returns the exposed names of the tools that are called, sorted.
func (p *Plan) Calls() []string {
	names := make(map[string]bool)
	for i := range p.steps {
		names[p.steps[i].call] = true
	}
	return slices.Sorted(maps.Keys(names))
}

type compiler struct {
	inputs   map[string]string // the type of each argument; empty where the schema says none, or several
	ids      map[string]int    // the first step of each id
	checker  *schema.Checker
	problems []Problem
}

func (c *compiler) wrong(step int, path []string, hint, format string, args ...any) {
	c.problems = append(c.problems, Problem{Step: step, Path: path, Hint: hint, Text: fmt.Sprintf(format, args...)})
}

var (
	validID   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`) })
	validCall = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.:/-]{1,128}$`) })
)

// ValidCall tells whether a text can be the exposed name of a tool.
func ValidCall(name string) bool { return validCall().MatchString(name) }

// id checks the name of a step.
func (c *compiler) id(i int, id string) {
	at := []string{"id"}
	switch first, twice := c.ids[id]; {
	case id == "":
		return // it is required, which is said already
	case !validID().MatchString(id):
		c.wrong(i, at, "write a letter, and then letters, digits, _ and -", "%.80q is no name of a step", id)
	case id == item:
		c.wrong(i, at, "write another one", "{%s} is the element of a for_each", item)
	case twice:
		c.wrong(i, at, "write another one", "step %d has the same id", first+1)
	default:
		if _, input := c.inputs[id]; input {
			c.wrong(i, at, "write another one", "%s is a property of input_schema", id)
		}
		c.ids[id] = i
	}
}

func (c *compiler) step(i int, s *Settings, known map[string]bool) step {
	out := step{id: s.ID, call: s.Call, max: s.Max, width: s.Width, onError: s.OnError}
	if s.Call != "" && !ValidCall(s.Call) {
		c.wrong(i, []string{"call"}, "write the name that clients use, such as github__list_issues", "%.80q is no name of a tool", s.Call)
	}
	if s.ForEach != "" {
		if _, shadowed := c.inputs[item]; shadowed {
			c.wrong(i, []string{"for_each"}, "rename the property", "{%s} is the element here, and also a property of input_schema", item)
		}
		out.each = c.list(i, s, known)
		known = maps.Clone(known)
		known[item] = true
		if out.width == 0 {
			out.width = defaultWidth
		}
	} else {
		for key, set := range map[string]bool{"max": s.Max != 0, "width": s.Width != 0} {
			if set {
				c.wrong(i, []string{key}, "remove it, or add for_each", "it is of steps with for_each")
			}
		}
		out.max, out.width = 1, 1
	}
	if len(s.With) > 0 {
		out.with = c.value(i, []string{"with"}, s.With, known)
	}
	if len(s.If) > 0 {
		out.conditions = c.conditions(i, s, known)
	}
	return out
}

// list reads the place of the list of a for_each.
func (c *compiler) list(i int, s *Settings, known map[string]bool) *reference {
	at := []string{"for_each"}
	if s.Max == 0 {
		c.wrong(i, at, fmt.Sprintf("add max: N, at most %d", MaxItems), "the loop has no bound")
	}
	r, err := parsePointer(s.ForEach)
	if err != nil {
		c.wrong(i, at, "write /NAME or /NAME/POINTER", "%.80q: %v", s.ForEach, err)
		return nil
	}
	if c.use(i, at, r, known); len(r.tokens) == 0 {
		if kind := c.inputs[r.name]; kind != "" && kind != "array" {
			c.wrong(i, at, "name a list", "the argument %s has the type %s", r.name, kind)
		}
	}
	return &r
}

// answer reads what the tool returns.
func (c *compiler) answer(d *Declaration, known map[string]bool) answer {
	path := []string{"answer"}
	switch {
	case len(d.Answer) == 0 && len(d.Steps) > 0:
		return answer{at: &reference{name: d.Steps[len(d.Steps)-1].ID}}
	case len(d.Answer) == 0:
		return answer{}
	case !bytes.HasPrefix(d.Answer, []byte(`"/`)):
		return answer{with: c.value(-1, path, d.Answer, known)}
	}
	text, err := mcp.Unquote(d.Answer)
	if err != nil {
		c.wrong(-1, path, "", "it cannot be read: %v", err)
		return answer{}
	}
	r, err := parsePointer(text)
	if err != nil {
		c.wrong(-1, path, "write /NAME or /NAME/POINTER", "%.80q: %v", text, err)
		return answer{}
	}
	c.use(-1, path, r, known)
	return answer{at: &r}
}

// value reads a JSON value with places. Each mistake is at its own string.
func (c *compiler) value(i int, path []string, raw []byte, known map[string]bool) placeholder.Value {
	before := len(c.problems)
	c.texts(i, path, raw, known)
	if len(c.problems) > before {
		return placeholder.Value{}
	}
	v, err := placeholder.ParseValue(raw)
	if err != nil {
		c.wrong(i, path, "", "%v", err)
	}
	return v
}

// texts checks the strings of a value.
func (c *compiler) texts(i int, path []string, raw []byte, known map[string]bool) {
	if len(path) > maxNesting || len(raw) == 0 {
		return // it is said as a whole
	}
	below := func(key string) []string { return append(slices.Clone(path), key) }
	switch raw[0] {
	case '{':
		for m := range mcp.Members(raw) {
			if key, err := mcp.Unquote(m.Key(raw)); err == nil {
				c.texts(i, below(key), m.Value.Of(raw), known)
			}
		}
	case '[':
		n := 0
		for e := range mcp.Elements(raw) {
			c.texts(i, below(fmt.Sprint(n)), e.Of(raw), known)
			n++
		}
	case '"':
		text, err := mcp.Unquote(raw)
		if err != nil {
			return
		}
		places, err := placeholder.ParseText(text)
		if err != nil {
			c.wrong(i, path, "", "%v", err)
			return
		}
		_, alone := places.Alone()
		for _, name := range places.Names() {
			c.place(i, path, name, alone, known)
		}
	}
}

// maxNesting is how deep a value is looked at; [placeholder.ParseValue] refuses a deeper one.
const maxNesting = 40

// place checks one place in a text. alone means that the text is nothing else.
func (c *compiler) place(i int, path []string, name string, alone bool, known map[string]bool) {
	if name == placeholder.Whole {
		if !alone {
			c.wrong(i, path, `write "{*}" alone`, "{*} is all arguments, and no part of a text")
		}
		return
	}
	r, err := parseReference(name)
	if err != nil {
		c.wrong(i, path, "", "%v", err)
		return
	}
	if !c.use(i, path, r, known) {
		return
	}
	if kind := c.inputs[r.name]; !alone && len(r.tokens) == 0 && (kind == "array" || kind == "object") {
		c.wrong(i, path, fmt.Sprintf(`write "{%s}" alone, or a part of it`, name), "the argument %s has the type %s, which is no text", r.name, kind)
	}
}

// use checks that what a reference names is there when the step runs.
func (c *compiler) use(i int, path []string, r reference, known map[string]bool) bool {
	switch step, is := c.ids[r.name]; {
	case known[r.name] && r.name != item && len(r.tokens) > 0 && scalar(c.inputs[r.name]):
		c.wrong(i, path, "write {"+r.name+"}", "the argument %s has the type %s, which has no parts", r.name, c.inputs[r.name])
		return false
	case known[r.name]:
		return true
	case r.name == item:
		c.wrong(i, path, "add for_each", "only steps with for_each have an {%s}", item)
	case is && step == i:
		c.wrong(i, path, "name an earlier step", "the step has no answer of its own yet")
	case is:
		c.wrong(i, path, "put that step before this one", "the step %s comes later", r.name)
	default:
		hint := "name an earlier step, or a property of input_schema"
		if near := tree.Nearest(r.name, slices.Sorted(maps.Keys(known))); near != "" {
			hint = "did you mean " + near + "?"
		}
		c.wrong(i, path, hint, "there is no step and no argument %.80q", r.name)
	}
	return false
}

func scalar(kind string) bool { return kind != "" && kind != "array" && kind != "object" }

// typesOf returns the types of the properties of a schema.
func typesOf(input []byte) map[string]string {
	out := make(map[string]string)
	properties := mcp.Lookup(input, "properties")
	for m := range mcp.Members(properties) {
		if name, err := mcp.Unquote(m.Key(properties)); err == nil {
			out[name], _ = mcp.LookupString(m.Value.Of(properties), "type")
		}
	}
	return out
}

// Join makes one error of problems, for whoever has no lines.
func Join(problems []Problem) error {
	var all []error
	for i := range problems {
		p := &problems[i]
		at := strings.Join(p.Path, ".")
		if p.Step >= 0 {
			at = fmt.Sprintf("steps[%d].%s", p.Step, at)
		}
		all = append(all, fmt.Errorf("%s: %w", at, p))
	}
	return errors.Join(all...)
}

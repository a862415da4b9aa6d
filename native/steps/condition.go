package steps

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/mcp"
)

// condition holds if there is a value at a place and it fits a schema.
type condition struct {
	at   reference
	fits *schema.Schema
}

// conditions reads those of a step.
func (c *compiler) conditions(i int, s *Settings, known map[string]bool) (out []condition) {
	for m := range mcp.Members(s.If) {
		pointer, err := mcp.Unquote(m.Key(s.If))
		if err != nil {
			continue
		}
		at, err := parsePointer(pointer)
		if err != nil {
			c.wrong(i, []string{"if", pointer}, "write /NAME or /NAME/POINTER", "%v", err)
			continue
		}
		c.use(i, []string{"if", pointer}, at, known)
		value := m.Value.Of(s.If)
		switch value[0] {
		case '[':
			c.wrong(i, []string{"if", pointer}, "write { enum: [...] } for one of several values", "a list is no condition")
			continue
		case '{':
		default:
			value = append(append([]byte(`{"const":`), value...), '}')
		}
		if !c.keywords(i, []string{"if", pointer}, value) {
			continue
		}
		fits, err := c.checker.Compile(value)
		if err == nil && len(fits.Partial()) > 0 {
			err = fmt.Errorf("this cannot be checked, write it in another way: %s", strings.Join(fits.Partial(), "; "))
		}
		if bad, ok := errors.AsType[*schema.Quarantined](err); ok {
			err = errors.New(bad.Reason)
		}
		if err != nil {
			c.wrong(i, []string{"if", pointer}, "write a JSON Schema, such as { minimum: 1 }, or the value itself", "%v", err)
			continue
		}
		out = append(out, condition{at, fits})
	}
	return out
}

// hold tells whether the conditions of a step hold: those about the element of a for_each,
// or all others, which are the same for every element.
func (s *step) hold(v scope, element bool) bool {
	for i := range s.conditions {
		c := &s.conditions[i]
		if element != (c.at.name == item) {
			continue
		}
		value := v.lookup(c.at)
		if value == nil || !c.fits.Check(schema.ReadArguments(value)).Valid {
			return false
		}
	}
	return true
}

package governance

import (
	"fmt"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Risk is how much harm a wrong call can do. The zero Risk is unknown.
type Risk string

// The risks.
const (
	Low    Risk = "low"
	Medium Risk = "medium"
	High   Risk = "high"
)

// UnmarshalText reads a risk; unknown ones are an error.
func (r *Risk) UnmarshalText(text []byte) error {
	if *r = Risk(text); r.rank() == 0 {
		return fmt.Errorf("%q is not a risk; it is low, medium or high", text)
	}
	return nil
}

func (r Risk) rank() int {
	switch r {
	case Low:
		return 1
	case Medium:
		return 2
	case High:
		return 3
	}
	return 0
}

// atLeast returns the higher of two risks.
func (r Risk) atLeast(other Risk) Risk {
	if other.rank() > r.rank() {
		return other
	}
	return r
}

// Class describes a tool as a whole. The zero Class belongs to an unknown tool, which
// counts as destructive.
type Class struct {
	ReadOnly    bool // it changes nothing
	Destructive bool // it may destroy existing data
	Risk        Risk
	// OperatorClassed is set when the operator classed the tool as read-only or
	// destructive. The server's own hints do not count.
	OperatorClassed bool
	HighCost        bool // not to be called while resources are short
}

// With returns the stricter value of both classes in each field.
func (c Class) With(other Class) Class {
	return Class{
		ReadOnly: c.ReadOnly && other.ReadOnly, Destructive: c.Destructive || other.Destructive, Risk: c.Risk.atLeast(other.Risk),
		OperatorClassed: c.OperatorClassed && other.OperatorClassed, HighCost: c.HighCost || other.HighCost,
	}
}

// Operator holds an operator's statements about a tool. Nil fields state nothing.
type Operator struct {
	ReadOnly, Destructive *bool
	Risk                  Risk
	HighCost              bool
}

// With combines two statements about the same tool. Where they differ, the stricter
// one counts.
func (o Operator) With(other Operator) Operator {
	stricter := func(a, b *bool, strict bool) *bool {
		switch {
		case a == nil:
			return b
		case b == nil || *a == strict:
			return a
		}
		return b
	}
	return Operator{
		ReadOnly: stricter(o.ReadOnly, other.ReadOnly, false), Destructive: stricter(o.Destructive, other.Destructive, true),
		Risk: o.Risk.atLeast(other.Risk), HighCost: o.HighCost || other.HighCost,
	}
}

// Hints are the annotations of a tool as listed by its server (MCP schema,
// ToolAnnotations). Nil fields state nothing.
type Hints struct {
	ReadOnly, Destructive *bool
}

// ReadHints returns the hints in a tool's verbatim JSON.
func ReadHints(tool []byte) Hints {
	hint := func(name string) *bool {
		switch string(mcp.Lookup(tool, "annotations", name)) {
		case "true":
			return new(true)
		case "false":
			return new(false)
		}
		return nil
	}
	return Hints{ReadOnly: hint("readOnlyHint"), Destructive: hint("destructiveHint")}
}

// Classify returns the effective class of a tool. The operator sets it; the hints of
// an untrusted server can only make it stricter.
func Classify(o Operator, h Hints) Class {
	c := Class{Risk: o.Risk, HighCost: o.HighCost, OperatorClassed: o.ReadOnly != nil || o.Destructive != nil}
	c.ReadOnly = o.ReadOnly != nil && *o.ReadOnly
	switch {
	case o.Destructive != nil:
		c.Destructive = *o.Destructive
	default:
		c.Destructive = !c.ReadOnly // classed as writing, or not classed
	}
	if h.ReadOnly != nil && !*h.ReadOnly {
		c.ReadOnly = false
		// By the specification, a tool that writes is destructive unless its hints deny
		// it.
		if h.Destructive == nil && o.Destructive == nil {
			c.Destructive = true
		}
	}
	if h.Destructive != nil && *h.Destructive {
		c.Destructive = true
	}
	if c.Destructive {
		c.ReadOnly = false
	}
	return c
}

// of returns the class for a capability of one kind. An unknown tool counts as
// destructive. Prompts and resources are read-only by definition of the protocol.
func (c Class) of(kind mcp.Kind) Class {
	switch kind {
	case mcp.Prompt, mcp.Resource, mcp.Template:
	default:
		c.Destructive = c.Destructive || !c.OperatorClassed
	}
	return c
}

package governance

import (
	"fmt"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Risk is how much harm a wrong call can do. The zero Risk is not known.
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

// Class is what is known of a tool as a whole. The zero Class is that of a
// tool of which nothing is known, which counts as destructive.
type Class struct {
	ReadOnly    bool // it changes nothing
	Destructive bool // it may destroy what is there
	Risk        Risk
	// OperatorClassed is set when the operator said of the tool whether it is
	// read-only or destructive. What only its server says does not count.
	OperatorClassed bool
	HighCost        bool // not to be called while resources are short
}

// With returns the class of what may be either of two: the stricter one of each.
func (c Class) With(other Class) Class {
	return Class{
		ReadOnly: c.ReadOnly && other.ReadOnly, Destructive: c.Destructive || other.Destructive, Risk: c.Risk.atLeast(other.Risk),
		OperatorClassed: c.OperatorClassed && other.OperatorClassed, HighCost: c.HighCost || other.HighCost,
	}
}

// Operator is what an operator says of a tool. Nil is nothing said.
type Operator struct {
	ReadOnly, Destructive *bool
	Risk                  Risk
	HighCost              bool
}

// With returns what is said in two places of the same tool. Where they differ,
// the stricter word counts.
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

// Hints are the annotations of a tool as its server lists them (MCP schema,
// ToolAnnotations). Nil is nothing said.
type Hints struct {
	ReadOnly, Destructive *bool
}

// ReadHints returns the hints in a tool as it was listed, its verbatim JSON.
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

// Classify returns the effective class of a tool. It comes from the operator;
// the hints of a server nobody vouches for can only make it stricter.
func Classify(o Operator, h Hints) Class {
	c := Class{Risk: o.Risk, HighCost: o.HighCost, OperatorClassed: o.ReadOnly != nil || o.Destructive != nil}
	c.ReadOnly = o.ReadOnly != nil && *o.ReadOnly
	switch {
	case o.Destructive != nil:
		c.Destructive = *o.Destructive
	default:
		c.Destructive = !c.ReadOnly // said to write, or nothing said
	}
	if h.ReadOnly != nil && !*h.ReadOnly {
		c.ReadOnly = false
		// By the specification a tool that writes is destructive unless it
		// says otherwise.
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

// of is the class of a capability of one kind: what is unknown of a tool
// counts as destructive; prompts and resources are only read by definition of
// the protocol.
func (c Class) of(kind mcp.Kind) Class {
	switch kind {
	case mcp.Prompt, mcp.Resource, mcp.Template:
	default:
		c.Destructive = c.Destructive || !c.OperatorClassed
	}
	return c
}

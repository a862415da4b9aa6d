package gate

import (
	"context"
	"fmt"
)

// Rule is where a rule stands that decided.
type Rule struct {
	File string // as it was configured; empty when the rule is not in a file
	Line int    // counted from 1
	// Text is the rule, or the part of it that stands in the line.
	Text string
}

// Place returns the file and the line; empty when the rule is in no file.
func (r Rule) Place() string {
	if r.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", r.File, r.Line)
}

// String returns the place and the text.
func (r Rule) String() string {
	if r.File == "" {
		return r.Text
	}
	return r.Place() + ": " + r.Text
}

// Change is what would turn a deny of a phase into something else.
type Change struct {
	// Text says it to a person.
	Text string
	// Where and Value say it to a program: what is to be changed, such as
	// "capsules.research.visible", "tenant_tool_flags" or "relation", and what
	// is to be there. What they mean is the phase's own.
	Where, Value string
}

// Explanation is a decision of one phase with all that led to it.
type Explanation struct {
	Decision
	// Rules are what decided, the deciding one first; nil when no rule did,
	// which denies.
	Rules []Rule
	// Question is what another service was asked, as one would ask it by hand;
	// empty when none was.
	Question string
	// Change is set for a deny.
	Change *Change
}

// Explain asks every phase, in the order of [Chain.Decide], which it agrees
// with: phases behind the first deny are not asked.
func (c *Chain) Explain(ctx context.Context, r *Request) (Decision, []Explanation) {
	verdict := undecided()
	if c == nil || r == nil || !c.decidesFor(r.Identity) {
		return verdict, nil
	}
	var steps []Explanation
	for i := range c.parts {
		p := &c.parts[i]
		var e Explanation
		var err error
		if p.Explain != nil {
			e, err = p.Explain(ctx, r)
		} else {
			e.Decision, err = check(ctx, p, r)
		}
		ended := judge(p, &verdict, e.Decision, err)
		if e.Phase = p.Name; ended {
			e.Decision = verdict
		}
		steps = append(steps, e)
		if ended {
			break
		}
	}
	return verdict, steps
}

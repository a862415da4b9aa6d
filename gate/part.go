package gate

import (
	"context"
	"errors"
)

// Phase is what a [Chain] is made of.
type Phase interface {
	// Part returns what the phase does. It is asked once for each chain.
	Part() Part
}

// Part is one check with all that a [Chain] can use of it. Its functions are safe for
// concurrent use and bound their own waits. Name and Check are needed; a part without a
// Check could not decide, which denies. Each of the others may be nil, which is slower
// or tells less, and never decides otherwise.
type Part struct {
	// Name is the name of the phase in decisions and audit entries.
	Name string

	// Check answers a request. An error denies; the decision beside it may say
	// in its Reason which kind of error it is.
	Check func(ctx context.Context, r *Request) (Decision, error)

	// Narrows means that the part denies what is not in [Identity.Capsules]. A chain without
	// such a part denies everything to an identity that has some.
	Narrows bool

	// CheckAll answers many requests of one identity and action, in their order. An
	// error denies them all; the Err of a single decision denies that one alone. Nil:
	// Check is asked about each.
	CheckAll func(ctx context.Context, rs []Request) ([]Decision, error)

	// Snapshot returns the rules by which the phase decides a request, as a comparable
	// value that differs whenever they do. As long as it is the same, so is the decision
	// on a request with the same [Key], whatever its arguments; the chain caches it. A nil
	// value says that the decision is not cacheable: it depends on more, such as the
	// arguments or the time, or somebody has to notice each one. A nil function says so of
	// all decisions.
	Snapshot func(r *Request) any

	// ViewClass names a class of callers. Two callers have the same class, or one caller at
	// two times, only if the phase decides the same for both on every capability, for the
	// action [View]. A phase whose rules change puts their revision into it. The chain
	// caches decisions on the items of lists by it. False says that they are not cacheable,
	// and so does a nil function.
	ViewClass func(id *Identity) (class string, cacheable bool)

	// Explain decides as Check does and says why. It has no other effect. Nil: the
	// explanation is what Check says.
	Explain func(ctx context.Context, r *Request) (Explanation, error)

	// Pin returns a part that goes on deciding [View] as this one does now, and a snapshot
	// of its rules. Nil: the rules do not change while the phase is in use.
	Pin func() (Part, any)
}

// Part implements [Phase].
func (p Part) Part() Part { return p }

// errNoCheck is why a part without a check could not decide.
var errNoCheck = errors.New("the phase has no check")

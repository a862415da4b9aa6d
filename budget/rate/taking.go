package rate

import (
	"context"
	"time"
)

// Taking is what one call takes from rates, in two steps. [Limiter.Begin] takes from the
// gateway's own buckets, and End from the shared ones, unless [Rows.Begin] has already done
// that in the exchange that counts the call. It belongs to the goroutine of the call. The
// zero Taking refuses the call; nil is that of a call without rates.
type Taking struct {
	meter   *Meter // nil for a call without a limiter, which is refused
	tokens  []Token
	rules   []*Rule
	refused int // index of the rule that refuses the call; -1 for none
	wait    time.Duration
	asked   bool // the shared store has answered, or need not be asked
	held    bool // the tokens are taken from the gateway's own buckets

	few struct { // memory for few tokens, which is the usual case
		tokens [2]Token
		rules  [2]*Rule
	}
}

// Begin takes the tokens that a call needs from the gateway's own buckets. The result must
// be ended with [Taking.End] or [Taking.Cancel]. It does not keep the call.
func (l *Limiter) Begin(c *Call) *Taking {
	t := new(Taking)
	if l == nil || l.meter == nil {
		return t
	}
	t.meter = l.meter
	t.tokens, t.rules = l.tokens(c, t.few.tokens[:0], t.few.rules[:0])
	t.fromLocal()
	return t
}

// fromLocal takes the tokens, if any, from the gateway's own buckets.
func (t *Taking) fromLocal() {
	t.refused = -1
	if len(t.tokens) > 0 {
		t.refused, t.wait = t.meter.local.Take(t.tokens...)
		t.held = t.refused < 0
	}
	t.asked = !t.held || t.meter.shared == nil
}

// fromShared takes the tokens from the shared store, unless it has answered.
func (t *Taking) fromShared(ctx context.Context) {
	if tokens := t.Shared(); len(tokens) > 0 {
		t.Answer(t.meter.takeShared(ctx, tokens))
	}
}

// Shared returns the tokens that are still to be taken from the shared store; nil for none.
func (t *Taking) Shared() []Token {
	if t == nil || t.asked {
		return nil
	}
	return t.tokens
}

// Answer records what a shared store has answered: -1, or the index of the token with the
// longest wait, and that wait. A store that did not answer has refused nothing.
func (t *Taking) Answer(refused int, wait time.Duration) {
	if t == nil || t.asked {
		return
	}
	t.asked, t.refused, t.wait = true, refused, wait
	if refused >= 0 {
		t.Cancel()
	}
}

// Cancel gives back what was taken from the gateway's own buckets, for a call that is
// refused before the shared ones are asked.
func (t *Taking) Cancel() {
	if t != nil && t.held {
		t.held = false
		t.meter.local.Return(t.tokens...)
	}
}

// End takes the tokens from the shared store, unless it has answered, and returns a
// [*Refusal] where there are too few.
func (t *Taking) End(ctx context.Context) error {
	switch {
	case t == nil:
		return nil
	case t.meter == nil:
		return ErrNoLimiter
	}
	t.fromShared(ctx)
	if t.refused >= 0 {
		return &Refusal{Rule: t.rules[t.refused], RetryAfter: t.wait}
	}
	return nil
}

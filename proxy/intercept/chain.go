package intercept

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/toolgate/toolgate/gate"
)

// Entry is a configured interceptor.
type Entry struct {
	Settings
	By Interceptor
}

// Chain is the interceptors of a configuration in their order. A nil Chain asks nobody.
// It is immutable and safe for concurrent use.
type Chain struct {
	mutators, validators []*link
}

// link is an entry at work.
type link struct {
	Entry
	breaker *gobreaker.CircuitBreaker[Verdict]
}

// A breaker opens after so many failures in a row, and tries again after a time.
const (
	maxFailures = 5
	breakerTime = 10 * time.Second
)

// errLeft ends an invocation whose call has ended. It says nothing of the interceptor.
var errLeft = errors.New("the call has ended")

// New returns the chain of some entries; nil for none.
func New(entries []Entry) *Chain {
	if len(entries) == 0 {
		return nil
	}
	c := &Chain{}
	for _, e := range entries {
		l := &link{Entry: e, breaker: gobreaker.NewCircuitBreaker[Verdict](gobreaker.Settings{
			Timeout:     breakerTime,
			ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= maxFailures },
			IsExcluded:  func(err error) bool { return errors.Is(err, errLeft) },
		})}
		if e.mutates() {
			c.mutators = append(c.mutators, l)
		} else {
			c.validators = append(c.validators, l)
		}
	}
	slices.SortStableFunc(c.mutators, func(a, b *link) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(c.validators, func(a, b *link) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

// Meets reports whether a call meets any interceptor.
func (c *Chain) Meets(phase Phase, name string) bool {
	return c.some(func(l *link) bool { return l.meets(phase, name) })
}

// closes reports whether a failure of an interceptor that a call meets would refuse it.
func (c *Chain) closes(phase Phase, name string) bool {
	return c.some(func(l *link) bool { return l.meets(phase, name) && !l.skips() && !l.audits() })
}

func (c *Chain) some(is func(*link) bool) bool {
	return c != nil && (slices.ContainsFunc(c.mutators, is) || slices.ContainsFunc(c.validators, is))
}

// Met are the interceptors that a call would meet, in their order.
func (c *Chain) Met(phase Phase, name string) (met []Entry) {
	if c == nil {
		return nil
	}
	groups := [][]*link{c.mutators, c.validators}
	if phase == After {
		slices.Reverse(groups)
	}
	for _, l := range slices.Concat(groups...) {
		if l.meets(phase, name) {
			met = append(met, l.Entry)
		}
	}
	return met
}

// Event is what one interceptor said of one call.
type Event struct {
	Interceptor string
	Phase       Phase
	// Verdict is pass, deny, ask, change or error. In audit mode it is what would have
	// been, and nothing has come of it.
	Verdict string
	Audit   bool
	Reason  string // why; empty for nothing
	Stack   string // of a panic; else empty
	Took    time.Duration
}

// Outcome is the verdict, or in audit mode what it would have been, as in "would deny".
func (e *Event) Outcome() string {
	if e.Audit && e.Verdict != "pass" {
		return "would " + e.Verdict
	}
	return e.Verdict
}

// Denial is why a chain refuses.
type Denial struct {
	By     string // the interceptor
	Reason string
	Err    error // why it has not decided; nil where it has denied
}

// Ruling is what a chain decides. Where Denied is not nil nothing else counts.
type Ruling struct {
	Denied  *Denial
	Demands []gate.Demand // approvals that the call needs
	Payload []byte        // as the interceptors have left it
	Notes   []Note
}

// Note is what an interceptor tells the client of a result.
type Note struct{ By, Text string }

// Run asks the interceptors that a call meets. told is given what each has said, in their
// order; it may be nil. The payload of the ruling is that of the call where nothing has
// changed it.
func (c *Chain) Run(ctx context.Context, phase Phase, call *Call, payload []byte, told func(Event)) Ruling {
	r := Ruling{Payload: payload}
	if c == nil {
		return r
	}
	run := running{phase: phase, call: call, told: told, ruling: &r}
	steps := []func(context.Context){
		func(ctx context.Context) { run.mutate(ctx, c.mutators) },
		func(ctx context.Context) { run.validate(ctx, c.validators) },
	}
	if phase == After {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if step(ctx); r.Denied != nil {
			break
		}
	}
	return r
}

// running is a chain at work on one call. Only the goroutine of the call uses it.
type running struct {
	phase  Phase
	call   *Call
	told   func(Event)
	ruling *Ruling
}

// mutate asks one interceptor after the other, each about what those before have left.
func (r *running) mutate(ctx context.Context, links []*link) {
	for _, l := range links {
		if !l.meets(r.phase, r.call.Name) {
			continue
		}
		inv := &Invocation{Call: r.call, Phase: r.phase, Payload: r.ruling.Payload}
		began := time.Now()
		v, err := l.ask(ctx, inv)
		if r.take(l, inv, v, err, time.Since(began)); r.ruling.Denied != nil {
			return
		}
	}
}

// validate asks interceptors beside one another about the same.
func (r *running) validate(ctx context.Context, links []*link) {
	type answer struct {
		v    Verdict
		err  error
		took time.Duration
	}
	inv := &Invocation{Call: r.call, Phase: r.phase, Payload: r.ruling.Payload}
	answers := make([]*answer, len(links))
	var asked sync.WaitGroup
	for i, l := range links {
		if !l.meets(r.phase, r.call.Name) {
			continue
		}
		a := &answer{}
		answers[i] = a
		asked.Go(func() {
			began := time.Now()
			a.v, a.err = l.ask(ctx, inv)
			a.took = time.Since(began)
		})
	}
	asked.Wait()
	for i, a := range answers {
		if a != nil {
			r.take(links[i], inv, a.v, a.err, a.took)
		}
	}
}

// take adds the answer of an interceptor to the ruling.
func (r *running) take(l *link, inv *Invocation, v Verdict, err error, took time.Duration) {
	e := Event{Interceptor: l.Name, Phase: r.phase, Audit: l.audits(), Reason: v.Reason, Took: took}
	switch {
	case err != nil:
		e.Verdict, e.Reason = "error", Shortened(err.Error())
		if p, ok := errors.AsType[*panicError](err); ok {
			e.Stack = p.stack
		}
		if !l.skips() || errors.Is(err, errLeft) {
			r.deny(&e, &Denial{By: l.Name, Reason: e.Reason, Err: err})
		}
	case v.Effect == Pass && v.Payload == nil:
		e.Verdict = "pass"
	case v.Effect == Pass:
		e.Verdict = "change"
		if !e.Audit {
			r.ruling.Payload = v.Payload
		}
	case v.Effect == Ask:
		e.Verdict = "ask"
		if !e.Audit {
			if v.Payload != nil {
				r.ruling.Payload = v.Payload
			}
			r.ruling.Demands = append(r.ruling.Demands, gate.Demand{
				Reason: "the interceptor " + l.Name + " asks for an approval" + because(v.Reason),
			})
		}
	default:
		e.Verdict = "deny"
		r.deny(&e, &Denial{By: l.Name, Reason: v.Reason})
	}
	if err == nil && v.Note != "" && v.Effect == Pass && !e.Audit {
		r.ruling.Notes = append(r.ruling.Notes, Note{l.Name, v.Note})
	}
	if r.told != nil {
		r.told(e)
	}
}

// deny refuses, if the interceptor is in force and nobody has refused before.
func (r *running) deny(e *Event, d *Denial) {
	if !e.Audit && r.ruling.Denied == nil {
		r.ruling.Denied = d
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// ask asks one interceptor, within its time, and checks its answer. What depends on the
// call alone, such as its size, says nothing of the next one and is no failure of the
// breaker.
func (l *link) ask(ctx context.Context, inv *Invocation) (Verdict, error) {
	if len(inv.Payload) > maxPayload {
		return Verdict{}, fmt.Errorf("there are %d bytes to look at; %d are the most", len(inv.Payload), maxPayload)
	}
	v, err := l.breaker.Execute(func() (Verdict, error) {
		within, cancel := context.WithTimeout(ctx, l.timeout())
		defer cancel()
		v, err := l.invoke(within, inv)
		switch {
		case ctx.Err() != nil:
			return Verdict{}, errLeft
		case within.Err() != nil:
			return Verdict{}, fmt.Errorf("it has not answered within %v", l.timeout())
		}
		return v, err
	})
	if err == nil {
		err = l.check(inv, &v)
	}
	if err != nil {
		return Verdict{}, err
	}
	return v, nil
}

// invoke calls the interceptor and turns its panic into an error.
func (l *link) invoke(ctx context.Context, inv *Invocation) (v Verdict, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p, string(debug.Stack())}
		}
	}()
	return l.By.Intercept(ctx, inv)
}

// panicError is the panic of an interceptor.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("it panicked: %v", e.value) }

// Shortened cuts a text to the length that a reason and a note may have.
func Shortened(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText-len("...")], "") + "..."
}

package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

const (
	// retryLeast and retryMost bound the pause before a repetition.
	retryLeast, retryMost = 100 * time.Millisecond, 2 * time.Second
	// retryTime is how long after its beginning a call is still repeated.
	retryTime = 10 * time.Second
	// retryShare is what each call adds to the repetitions that a backend may get,
	// retryBurst how many of them can be saved up.
	retryShare, retryBurst = 0.1, 10
	// awayTime is for how long after the loss of a backend calls wait for its
	// return.
	awayTime = 5 * time.Second
	// longestHold bounds how long a backend may ask to be left alone.
	longestHold = 2 * time.Minute
	// maxHolds is how many capabilities of a backend may have asked for that.
	maxHolds = 1024
	// maxReason is how many bytes are kept of what a failure says.
	maxReason = 256
)

// retryBudget keeps the repetitions of a backend a small share of its calls, so
// that they do not make a bad time worse.
type retryBudget struct {
	mu     sync.Mutex
	tokens float64
}

func (b *retryBudget) earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+retryShare, retryBurst)
}

// spend tells whether one more repetition fits.
func (b *retryBudget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// Permit lets one request through a guard. It is taken by the request, or given
// back, once.
type Permit struct {
	guard      *Guard
	what       capability
	began      time.Time
	whole, own ticket
	taken      atomic.Bool
}

// Enter asks every breaker that a request for a capability, by its name at the backend,
// has to pass, before it is charged: what a breaker refuses costs nothing. The permit
// belongs into [mcp.Call.Pass]. The error is a [*refusal.Error].
func (g *Guard) Enter(kind mcp.Kind, key string) (*Permit, error) {
	return g.enter(capability{kind, key})
}

// Peek returns the refusal that [Guard.Enter] would, and changes nothing.
func (g *Guard) Peek(kind mcp.Kind, key string) error {
	return g.peek(capability{kind, key})
}

func (g *Guard) enter(what capability) (*Permit, error) {
	now := time.Now()
	if held := g.heldFor(what, now); held > 0 {
		return nil, g.busy(held)
	}
	p := &Permit{guard: g, what: what, began: now}
	var wait time.Duration
	if p.whole, wait = g.whole.enter(now); wait > 0 {
		return nil, g.broken("", wait)
	}
	if own := g.own(what); own != nil {
		if p.own, wait = own.enter(now); wait > 0 {
			p.whole.end(tellsNothing, now)
			return nil, g.broken(what.key, wait)
		}
	}
	return p, nil
}

// peek returns the refusal that enter would, and changes nothing.
func (g *Guard) peek(what capability) error {
	now := time.Now()
	if held := g.heldFor(what, now); held > 0 {
		return g.busy(held)
	}
	if wait := g.whole.refusesFor(now); wait > 0 {
		return g.broken("", wait)
	}
	if own := g.own(what); own != nil {
		if wait := own.refusesFor(now); wait > 0 {
			return g.broken(what.key, wait)
		}
	}
	return nil
}

// Trial tells whether a breaker that is half-open lets the request through.
func (p *Permit) Trial() bool { return p.whole.trial || p.own.trial }

// GiveBack ends a permit that no request has taken. It may be called after every
// request.
func (p *Permit) GiveBack() {
	if p.taken.CompareAndSwap(false, true) {
		p.end(neutral, nil)
	}
}

// end tells the breakers how a request ended. A fault that may be of the one
// capability counts for the whole backend only while nothing else of it answers.
func (p *Permit) end(v verdict, err error) {
	g, now := p.guard, time.Now()
	whole, own := tellsNothing, tellsNothing
	switch v {
	case healthy:
		whole, own = succeeded, succeeded
		g.noteAnswer(p.what, now)
	case faulted:
		whole, own = failed, failed
	case suspect:
		own = failed
		since := p.began // of a silence
		if err == nil {  // an error came at once
			since = now.Add(-breakerWindow)
		}
		if !g.othersAnswered(p.what, since) {
			whole = failed
		}
	case neutral:
	}
	if whole == failed || own == failed {
		g.noteFailure(err)
	}
	p.whole.end(whole, now)
	p.own.end(own, now)
}

func (g *Guard) noteFailure(err error) {
	text := "it answered with an internal error"
	if failure, ok := errors.AsType[*mcp.Failure](err); ok {
		text = cmp.Or(failure.Reason, string(failure.Kind))
		if failure.Err != nil {
			text = failure.Err.Error()
		}
	}
	text = strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = text
}

func (g *Guard) noteAnswer(what capability, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answered[0].by != what {
		g.answered[1] = g.answered[0]
		g.answered[0].by = what
	}
	g.answered[0].at = now
}

// othersAnswered tells whether something else of the backend has been answered
// since a moment.
func (g *Guard) othersAnswered(than capability, since time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	latest := g.answered[0]
	if latest.by == than {
		latest = g.answered[1]
	}
	return latest.at.After(since)
}

// hold leaves a capability alone for as long as its backend asks for.
func (g *Guard) hold(what capability, d time.Duration) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.holds) >= maxHolds {
		for one, until := range g.holds {
			if !until.After(now) {
				delete(g.holds, one)
			}
		}
	}
	if len(g.holds) < maxHolds {
		g.holds[what] = now.Add(min(d, longestHold))
	}
}

// heldFor tells how long a capability is still left alone.
func (g *Guard) heldFor(what capability, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	until, held := g.holds[what]
	if held && !until.After(now) {
		delete(g.holds, what)
	}
	return max(0, until.Sub(now))
}

// Call implements [Backend]. It makes a request, and makes it again where that
// is safe: what never reached the backend, and what may run twice. Nobody else makes
// a request again. All of it is one call, within one deadline. A refusal of a breaker
// is a [*refusal.Error] that wraps a [mcp.Failure]: nothing was delivered.
func (g *Guard) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	if call.Method == mcp.MethodTaskCancel || call.Method == mcp.MethodUnsubscribe { // which end something
		answer, err := g.backend.Call(ctx, call)
		if failure, ok := errors.AsType[*mcp.Failure](err); ok && failure.Renewed {
			return g.backend.Call(ctx, call)
		}
		return answer, err
	}
	set := g.set.Load()
	began := time.Now()
	limit := cmp.Or(call.Timeout, set.Call)
	what := capability{call.Kind, call.Key}
	own, heard := attempt(call, set.Retries > 0)
	delivered, renewed := false, false
	g.budget.earn()
	for repetition := 1; ; repetition++ {
		answer, err := g.once(ctx, what, own)
		var failure *mcp.Failure
		if err == nil || !errors.As(err, &failure) {
			return answer, err
		}
		if delivered = delivered || failure.Delivered; delivered && !failure.Delivered {
			whole := *failure // of all that was made
			whole.Delivered, whole.Err = true, err
			err = &whole
		}
		if failure.RetryAfter > retryMost {
			g.hold(what, failure.RetryAfter)
		}
		pause := max(jitter(repetition), failure.RetryAfter)
		again := g.repeatable(failure) && (!failure.Delivered || g.idempotent(set, call))
		if failure.Renewed { // once: what stands in the way again is not mended by a new session
			pause, again = 0, !renewed
		}
		switch {
		case repetition > set.Retries, heard.Load(), time.Since(began)+pause >= min(limit, retryTime), pause > retryMost,
			!again, g.peek(what) != nil, !failure.Renewed && !g.budget.spend():
			return mcp.Answer{}, err
		}
		renewed = renewed || failure.Renewed
		g.log.Debug("a call is made again", "method", call.Method, "repetition", repetition, "pause", pause, "err", err)
		if pause > 0 && !sleep(ctx, pause) {
			return mcp.Answer{}, context.Cause(ctx)
		}
		if g.opts.Retried != nil {
			g.opts.Retried(g.backend.Name())
		}
		if own == call {
			copied := *call
			own = &copied
		}
		own.Timeout, own.Permit = limit-time.Since(began), nil
	}
}

// once makes a request with the permit that it brings, or one of its own.
func (g *Guard) once(ctx context.Context, what capability, call *mcp.Call) (answer mcp.Answer, err error) {
	p, _ := call.Permit.(*Permit)
	if p == nil || p.guard != g || !p.taken.CompareAndSwap(false, true) {
		if p, err = g.enter(what); err != nil {
			return mcp.Answer{}, err
		}
		p.taken.Store(true)
	}
	p.began = time.Now()
	ended := faulted // a backend that panics
	defer func() { p.end(ended, err) }()
	answer, err = g.backend.Call(ctx, call)
	ended = judge(&answer, err)
	return answer, err
}

// attempt returns the call as it is made, and what tells whether the client has
// heard anything of it, after which it is not made again.
func attempt(call *mcp.Call, watched bool) (own *mcp.Call, heard *atomic.Bool) {
	heard = new(atomic.Bool)
	if !watched || call.Notify == nil && call.Ask == nil {
		return call, heard
	}
	c := *call
	if notify := call.Notify; notify != nil {
		c.Notify = func(method string, params []byte) {
			heard.Store(true)
			notify(method, params)
		}
	}
	if ask := call.Ask; ask != nil {
		c.Ask = func(ctx context.Context, method string, params []byte, reply func([]byte, *mcp.Error)) {
			heard.Store(true)
			ask(ctx, method, params, reply)
		}
	}
	return &c, heard
}

// repeatable tells whether the next attempt may end better. A backend that has
// been away for a while is not waited for: its calls fail at once.
func (g *Guard) repeatable(f *mcp.Failure) bool {
	switch f.Kind {
	case mcp.FailUnavailable:
		_, status := g.backend.Listing()
		here := status.State == mcp.Ready || status.State == mcp.Degraded
		return here || time.Since(status.Since) < awayTime
	case mcp.FailBusy:
		return true
	case mcp.FailProtocol: // a server that is in trouble, not one that says no
		return f.Status >= 500 || f.RetryAfter > 0
	case mcp.FailTimeout, mcp.FailTooLarge, mcp.FailLogin, mcp.FailDisabled, mcp.FailGone, mcp.FailGivenUp:
	}
	return false
}

// idempotent tells whether a call may run twice: its tool is one of which the
// operator says so, or trusts the backend's own word.
func (g *Guard) idempotent(set *Settings, call *mcp.Call) bool {
	if call.Method != mcp.MethodToolsCall {
		return false
	}
	if said := set.Tools[call.Key].Idempotent; said != nil {
		return *said
	}
	if !set.TrustHints {
		return false
	}
	listing, _ := g.backend.Listing()
	item := listing.Find(mcp.Tool, call.Key)
	if item == nil {
		return false
	}
	hint := func(name string) bool { return string(mcp.Lookup(item.Raw, "annotations", name)) == "true" }
	return hint("readOnlyHint") || hint("idempotentHint")
}

// sleep waits and tells whether the context lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// broken is the refusal of an open breaker: that of a tool, or with an empty name
// that of the backend.
func (g *Guard) broken(tool string, wait time.Duration) *refusal.Error {
	return refusal.BreakerOpen(g.backend.Name(), tool != "", wait, inSeconds(wait))
}

// busy is the refusal of what its backend has asked to be left alone.
func (g *Guard) busy(wait time.Duration) *refusal.Error {
	return refusal.AskedForRest(g.backend.Name(), wait, inSeconds(wait))
}

// inSeconds is a wait in words, rounded up.
func inSeconds(d time.Duration) string {
	if n := (d + time.Second - 1) / time.Second; n > 1 {
		return fmt.Sprintf("%d seconds", n)
	}
	return "a second"
}

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
	// retryMinPause and retryMaxPause bound the pause before a retry.
	retryMinPause, retryMaxPause = 100 * time.Millisecond, 2 * time.Second
	// retryWindow is how long after its beginning a call is still retried.
	retryWindow = 10 * time.Second
	// retryShare is how many retries each call earns its backend, retryBurst how many
	// can be saved up.
	retryShare, retryBurst = 0.1, 10
	// reconnectWait is how long after the loss of a backend calls wait for its return.
	reconnectWait = 5 * time.Second
	// maxRetryAfter bounds how long a backend can postpone calls.
	maxRetryAfter = 2 * time.Minute
	// maxPostponed is how many capabilities of a backend can be postponed.
	maxPostponed = 1024
	// maxReason bounds the stored text of a failure, in bytes.
	maxReason = 256
)

// retryBudget limits the retries of a backend to a small share of its calls, so that
// retries do not make an outage worse.
type retryBudget struct {
	mu     sync.Mutex
	tokens float64
}

func (b *retryBudget) earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+retryShare, retryBurst)
}

// spend reports whether one more retry is allowed, and counts it.
func (b *retryBudget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// Permit lets one request through a guard. The request takes it, or GiveBack returns
// it.
type Permit struct {
	guard      *Guard
	what       capability
	began      time.Time
	whole, own circuitPermit
	taken      atomic.Bool
}

// Enter asks the breakers of a capability for a permit, by its name at the backend.
// Call it before the call is charged: what a breaker refuses costs nothing. The permit
// belongs into [mcp.Call.Permit]. The error is a [*refusal.Error].
func (g *Guard) Enter(kind mcp.Kind, key string) (*Permit, error) {
	return g.enter(capability{kind, key})
}

// Peek returns the refusal that [Guard.Enter] would, without taking a permit.
func (g *Guard) Peek(kind mcp.Kind, key string) error {
	return g.peek(capability{kind, key})
}

func (g *Guard) enter(what capability) (*Permit, error) {
	now := time.Now()
	if held := g.postponedFor(what, now); held > 0 {
		return nil, g.retryLater(held)
	}
	p := &Permit{guard: g, what: what, began: now}
	var wait time.Duration
	if p.whole, wait = g.whole.enter(now); wait > 0 {
		return nil, g.breakerOpen("", wait)
	}
	if own := g.own(what); own != nil {
		if p.own, wait = own.enter(now); wait > 0 {
			p.whole.end(ignored, now)
			return nil, g.breakerOpen(what.key, wait)
		}
	}
	return p, nil
}

// peek returns the refusal that enter would, without taking a permit.
func (g *Guard) peek(what capability) error {
	now := time.Now()
	if held := g.postponedFor(what, now); held > 0 {
		return g.retryLater(held)
	}
	if wait := g.whole.refusesFor(now); wait > 0 {
		return g.breakerOpen("", wait)
	}
	if own := g.own(what); own != nil {
		if wait := own.refusesFor(now); wait > 0 {
			return g.breakerOpen(what.key, wait)
		}
	}
	return nil
}

// Trial reports whether the request is a trial of a half-open breaker.
func (p *Permit) Trial() bool { return p.whole.trial || p.own.trial }

// GiveBack returns a permit that no request has taken. It does nothing after a request,
// so it may always be called.
func (p *Permit) GiveBack() {
	if p.taken.CompareAndSwap(false, true) {
		p.end(neutral, nil)
	}
}

// end tells the breakers how a request ended. A suspect outcome counts for the whole
// backend only while nothing else of it is answered.
func (p *Permit) end(v verdict, err error) {
	g, now := p.guard, time.Now()
	whole, own := ignored, ignored
	switch v {
	case healthy:
		whole, own = succeeded, succeeded
		g.noteAnswer(p.what, now)
	case faulted:
		whole, own = failed, failed
	case suspect:
		own = failed
		since := p.began // start of the silence
		if err == nil {  // an error response came at once
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

// othersAnswered reports whether another capability of the backend was answered since a
// moment.
func (g *Guard) othersAnswered(than capability, since time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	latest := g.answered[0]
	if latest.by == than {
		latest = g.answered[1]
	}
	return latest.at.After(since)
}

// postpone refuses calls of a capability for as long as its backend asks for.
func (g *Guard) postpone(what capability, d time.Duration) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.holds) >= maxPostponed {
		for one, until := range g.holds {
			if !until.After(now) {
				delete(g.holds, one)
			}
		}
	}
	if len(g.holds) < maxPostponed {
		g.holds[what] = now.Add(min(d, maxRetryAfter))
	}
}

// postponedFor returns how long a capability is still postponed.
func (g *Guard) postponedFor(what capability, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	until, held := g.holds[what]
	if held && !until.After(now) {
		delete(g.holds, what)
	}
	return max(0, until.Sub(now))
}

// Call implements [Backend]. It sends a request, and retries it where that is safe:
// when it never reached the backend, or may run twice. Nobody else retries requests.
// All attempts share one deadline. A refusal by a breaker is a [*refusal.Error] that
// wraps a [mcp.Failure]: nothing was delivered.
func (g *Guard) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	if call.Method == mcp.MethodTaskCancel || call.Method == mcp.MethodUnsubscribe { // they end something
		answer, err := g.backend.Call(ctx, call)
		if failure, ok := errors.AsType[*mcp.Failure](err); ok && failure.Renewed {
			return g.backend.Call(ctx, call)
		}
		return answer, err
	}
	a := attempts{call: call, set: g.set.Load(), what: capability{call.Kind, call.Key}, began: time.Now()}
	a.own, a.heard = attempt(call, a.set.Retry.times() > 0)
	a.silence = a.heard.Load()
	g.budget.earn()
	for {
		answer, err := g.once(ctx, a.what, a.own)
		var failure *mcp.Failure
		if err == nil || !errors.As(err, &failure) {
			return answer, err
		}
		if err = g.again(ctx, &a, failure, err); err != nil {
			return mcp.Answer{}, err
		}
	}
}

// attempts are those of one call.
type attempts struct {
	call, own *mcp.Call // as it came, and as it is sent
	set       *Settings
	what      capability
	began     time.Time
	heard     *atomic.Int64
	silence   int64 // what was heard before

	retries            int
	delivered, renewed bool // one of them was
}

// again prepares another attempt after one that has failed, and waits until its time. Where there
// is none, it returns the error of the call.
func (g *Guard) again(ctx context.Context, a *attempts, failure *mcp.Failure, err error) error {
	limit := cmp.Or(a.call.Timeout, a.set.Call)
	if a.delivered = a.delivered || failure.Delivered; a.delivered && !failure.Delivered {
		whole := *failure // of all attempts
		whole.Delivered, whole.Err = true, err
		err = &whole
	}
	if failure.RetryAfter > retryMaxPause {
		g.postpone(a.what, failure.RetryAfter)
	}
	a.retries++
	pause := max(jitter(a.retries), failure.RetryAfter)
	again := g.repeatable(failure) && (!failure.Delivered || g.idempotent(a.set, a.call))
	if failure.Renewed { // only once: a new session does not help a second time
		pause, again = 0, !a.renewed
	}
	switch {
	case a.retries > a.set.Retry.times(), a.heard.Load() != a.silence, time.Since(a.began)+pause >= min(limit, retryWindow), pause > retryMaxPause,
		!again, g.peek(a.what) != nil, !failure.Renewed && !g.budget.spend():
		return err
	}
	a.renewed = a.renewed || failure.Renewed
	g.log.Debug("a call is made again", "method", a.call.Method, "repetition", a.retries, "pause", pause, "err", err)
	if pause > 0 && !sleep(ctx, pause) {
		return context.Cause(ctx)
	}
	if g.opts.Retried != nil {
		g.opts.Retried(g.backend.Name())
	}
	if a.own == a.call {
		copied := *a.call
		a.own = &copied
	}
	a.own.Timeout, a.own.Permit = limit-time.Since(a.began), nil
	return nil
}

// once sends a request with its own permit, or a new one.
func (g *Guard) once(ctx context.Context, what capability, call *mcp.Call) (answer mcp.Answer, err error) {
	p, _ := call.Permit.(*Permit)
	if p == nil || p.guard != g || !p.taken.CompareAndSwap(false, true) {
		if p, err = g.enter(what); err != nil {
			return mcp.Answer{}, err
		}
		p.taken.Store(true)
	}
	p.began = time.Now()
	ended := faulted // if the backend panics
	defer func() { p.end(ended, err) }()
	answer, err = g.backend.Call(ctx, call)
	ended = classify(&answer, err)
	return answer, err
}

// attempt returns the call for one attempt, and a counter of what its client has seen of it.
// The call is not retried once that has grown. A call that does not count is copied.
func attempt(call *mcp.Call, watched bool) (own *mcp.Call, heard *atomic.Int64) {
	if call.Heard != nil {
		return call, call.Heard
	}
	heard = new(atomic.Int64)
	if !watched || call.Notify == nil && call.Ask == nil {
		return call, heard
	}
	c := *call
	if notify := call.Notify; notify != nil {
		c.Notify = func(method string, params []byte) {
			heard.Add(1)
			notify(method, params)
		}
	}
	if ask := call.Ask; ask != nil {
		c.Ask = func(ctx context.Context, method string, params []byte, reply func([]byte, *mcp.Error)) {
			heard.Add(1)
			ask(ctx, method, params, reply)
		}
	}
	return &c, heard
}

// repeatable reports whether a retry may succeed. It does not wait for a backend that
// has been away for long: those calls fail at once.
func (g *Guard) repeatable(f *mcp.Failure) bool {
	switch f.Kind {
	case mcp.FailUnavailable:
		_, status := g.backend.Listing()
		here := status.State == mcp.Ready || status.State == mcp.Degraded
		return here || time.Since(status.Since) < reconnectWait
	case mcp.FailBusy:
		return true
	case mcp.FailProtocol: // an overloaded or failing server, not one that refuses
		return f.Status >= 500 || f.RetryAfter > 0
	case mcp.FailTimeout, mcp.FailTooLarge, mcp.FailLogin, mcp.FailDisabled, mcp.FailGone, mcp.FailGivenUp:
	}
	return false
}

// MayRepeat reports whether a tool may run twice for one call, by the rule of
// [Retry.TrustHints] and what the operator says of the tool.
func (g *Guard) MayRepeat(tool string) bool {
	return g.idempotent(g.set.Load(), &mcp.Call{Method: mcp.MethodToolsCall, Key: tool})
}

// idempotent reports whether a call may run twice: the operator says so of its tool, or
// trusts the backend's hints.
func (g *Guard) idempotent(set *Settings, call *mcp.Call) bool {
	if call.Method != mcp.MethodToolsCall {
		return false
	}
	if said := set.Tools[call.Key].Idempotent; said != nil {
		return *said
	}
	if !set.Retry.TrustHints {
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

// sleep waits and reports whether the context is still alive.
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

// breakerOpen is the refusal of an open breaker: of a tool, or of the backend when tool
// is empty.
func (g *Guard) breakerOpen(tool string, wait time.Duration) *refusal.Error {
	return refusal.BreakerOpen(g.backend.Name(), tool != "", wait, inSeconds(wait))
}

// retryLater is the refusal of a postponed call.
func (g *Guard) retryLater(wait time.Duration) *refusal.Error {
	return refusal.RetryLater(g.backend.Name(), wait, inSeconds(wait))
}

// inSeconds returns a wait in words, rounded up.
func inSeconds(d time.Duration) string {
	if n := (d + time.Second - 1) / time.Second; n > 1 {
		return fmt.Sprintf("%d seconds", n)
	}
	return "a second"
}

package proxy

import (
	"container/heap"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// identify finds out who sent a request and until when that stands, zero for as
// long as the configuration does.
func (hf *httpFront) identify(r *http.Request) (id *gate.Identity, until time.Time, err error) {
	if lasting, ok := hf.g.opts.Authenticator.(Lasting); ok {
		id, until, err = lasting.AuthenticateUntil(r)
	} else {
		id, err = hf.g.opts.Authenticator.Authenticate(r)
	}
	if err == nil && id == nil {
		err = gate.ErrBadCredential
	}
	return id, until, err
}

// useRound finds out who sent a request, or answers. The request that it returns
// ends with what the caller showed; leave must be called behind it.
func (hf *httpFront) admit(w http.ResponseWriter, r *http.Request) (in *http.Request, id *gate.Identity, leave func()) {
	from := limit.Network(r.RemoteAddr)
	if refused := hf.g.failures.Refused(r, from); refused != nil {
		writeBusy(w, "", refused)
		return nil, nil, nil
	}
	id, until, err := hf.identify(r)
	hf.g.failures.Note(r, from, err)
	if err != nil {
		if !errors.Is(err, gate.ErrNoCredential) {
			hf.g.log.Info("request refused", "path", r.URL.Path, "err", err)
		}
		hf.writeChallenge(w, r, &authChallenge{err: err})
		return nil, nil, nil
	}
	limit.Known(r.Context())
	if until.IsZero() {
		return r, id, func() {}
	}
	v := hf.revalidate(r, id, until)
	return v.r, id, v.end
}

// authChallenge is why a request is answered by an HTTP status and a challenge.
type authChallenge struct {
	err   error
	id    mcp.ID     // of the message; empty where none was read
	fault *mcp.Error // the body; nil for what the resource says
}

// writeChallenge answers a request whose caller is not let in, is not any more, or
// lacks a scope. It says nothing of any server behind the gateway.
func (hf *httpFront) writeChallenge(w http.ResponseWriter, r *http.Request, why *authChallenge) {
	status, text := hf.g.opts.Resource.Refuse(w.Header(), r, why.err)
	fault := why.fault
	if fault == nil {
		fault = mcp.Errorf(mcp.CodeInvalidRequest, "%s", text)
	}
	writeFault(w, status, why.id, fault)
}

// noResource is the [Resource] of a gateway that was given none: it publishes
// nothing, and its challenges lead nowhere.
type noResource struct{}

// Refuse implements [Resource].
func (noResource) Refuse(h http.Header, _ *http.Request, err error) (status int, text string) {
	switch {
	case errors.Is(err, gate.ErrForbidden):
		return http.StatusForbidden, err.Error()
	case errors.Is(err, gate.ErrNoCredential):
		h.Set("WWW-Authenticate", "Bearer")
		return http.StatusUnauthorized, "Authentication is required: send an API key as a bearer token"
	default:
		h.Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		return http.StatusUnauthorized, "The token is not valid"
	}
}

// Serves implements [Resource].
func (noResource) Serves(string) bool { return false }

// ServeHTTP implements [Resource].
func (noResource) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

// sameCaller tells whether two verdicts are about the same caller with the same
// rights.
func sameCaller(a, b *gate.Identity) bool {
	return a.Rights() == b.Rights()
}

// accessRevokedError is the cause of the context of a request whose caller is not let
// in any more.
type accessRevokedError struct{ err error }

// Error implements error.
func (e *accessRevokedError) Error() string {
	return "the caller is not let in any more: " + e.err.Error()
}

// Unwrap returns what the authenticator said.
func (e *accessRevokedError) Unwrap() error { return e.err }

// errOtherCaller is a credential that stands for someone else than before, or
// for the same caller with other rights.
var errOtherCaller = errors.Join(gate.ErrBadCredential, errors.New("it has another meaning now"))

// accessRevoked returns why the caller of a request is not let in any more, nil while
// it is.
func accessRevoked(ctx context.Context) error {
	if ended, ok := errors.AsType[*accessRevokedError](context.Cause(ctx)); ok {
		return ended.err
	}
	return nil
}

// scoped returns why a caller may not use what it may view: for want of a scope.
// It is asked behind the view decision alone, because it tells what needs which
// scope.
func (s *Snapshot) scoped(id *gate.Identity, r *Route) error {
	if s.scopes == nil {
		return nil
	}
	err := s.scopes.Check(id, r.names())
	if err == nil {
		return nil
	}
	return refusal.Scope(err)
}

// CountFailures is a handler of what is not the protocol, such as pages that people
// sign in by and answers that are signed. What it refuses counts as a failed
// authentication of the address, and an address with too many is answered 429 before
// anything is looked at.
func (g *Gateway) CountFailures(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := limit.Network(r.RemoteAddr)
		if refused := g.failures.Refused(r, from); refused != nil {
			writeBusy(w, "", refused)
			return
		}
		answer := &statusWriter{ResponseWriter: w}
		h.ServeHTTP(answer, r)
		if answer.status >= http.StatusBadRequest && answer.status < http.StatusInternalServerError && answer.status != http.StatusTooManyRequests {
			g.failures.Count(from)
		}
	})
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int // 0 until it is written
}

// WriteHeader implements [http.ResponseWriter].
func (a *statusWriter) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (a *statusWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// revalidation looks at a request again each time the verdict about its caller ends,
// and ends the request when the answer is another one. It is the context of the
// request.
type revalidation struct {
	context.Context

	g      *Gateway
	r      *http.Request
	id     *gate.Identity
	cancel context.CancelCauseFunc

	mu   sync.Mutex // held while it looks
	over bool

	due   time.Time // of the next look; guarded by revalidations.mu, as is at
	index int       // among the revalidations; negative for none
}

// minRevalidation is the least time between two looks.
const minRevalidation = time.Second

// revalidate has the credential of a request looked at again when its verdict ends.
func (hf *httpFront) revalidate(r *http.Request, id *gate.Identity, until time.Time) *revalidation {
	v := &revalidation{g: hf.g, id: id, index: -1}
	v.Context, v.cancel = context.WithCancelCause(r.Context())
	v.r = r.WithContext(v)
	hf.g.revalidations.add(v, until)
	return v
}

type revalidationKey struct{}

// Value implements [context.Context].
func (v *revalidation) Value(key any) any {
	if key == (revalidationKey{}) {
		return v
	}
	return v.Context.Value(key)
}

// revalidated tells whether a request may end because its caller is not let in any
// more.
func revalidated(ctx context.Context) bool { return ctx.Value(revalidationKey{}) != nil }

func (v *revalidation) check() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return
	}
	id, until, err := v.g.front.identify(v.r)
	switch {
	case v.Err() != nil:
	case err != nil:
		v.cancel(&accessRevokedError{err})
	case !sameCaller(id, v.id):
		v.cancel(&accessRevokedError{errOtherCaller})
	case !until.IsZero():
		next := time.Now().Add(minRevalidation)
		if until.After(next) {
			next = until
		}
		v.g.revalidations.add(v, next)
	}
}

// end ends the revalidation and waits for a look that is under way, which the context
// ends.
func (v *revalidation) end() {
	v.cancel(nil)
	v.mu.Lock()
	v.over = true // no look adds it any more
	v.mu.Unlock()
	v.g.revalidations.remove(v)
}

// revalidations are those of all open requests, by when they look next. One timer
// serves them: one of each request would be set and stopped by every call, and
// setting one wakes a processor. The zero value has none.
type revalidations struct {
	mu    sync.Mutex
	queue revalidationQueue
	timer *time.Timer
	fires time.Time // when the timer does; zero while it is not set
}

// add has a revalidation look at a time.
func (all *revalidations) add(v *revalidation, due time.Time) {
	all.mu.Lock()
	defer all.mu.Unlock()
	v.due = due
	heap.Push(&all.queue, v)
	all.schedule()
}

// remove has a revalidation not look again. The timer is left as it is: it mostly
// serves the next one.
func (all *revalidations) remove(v *revalidation) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if v.index >= 0 {
		heap.Remove(&all.queue, v.index)
	}
}

// schedule has the timer fire for the first one; mu is held.
func (all *revalidations) schedule() {
	if len(all.queue) == 0 {
		return
	}
	first := all.queue[0].due
	if !all.fires.IsZero() && !first.Before(all.fires) {
		return
	}
	all.fires = first
	if all.timer == nil {
		all.timer = time.AfterFunc(time.Until(first), all.fire) // fires once without any, at most
		return
	}
	all.timer.Reset(time.Until(first))
}

// fire lets those look whose time has come, each in a goroutine of its own, which
// ends with its request at the latest.
func (all *revalidations) fire() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.fires = time.Time{}
	for now := time.Now(); len(all.queue) > 0 && !all.queue[0].due.After(now); {
		go heap.Pop(&all.queue).(*revalidation).check()
	}
	all.schedule()
}

// revalidationQueue implements [heap.Interface].
type revalidationQueue []*revalidation

// Len implements [heap.Interface].
func (q revalidationQueue) Len() int { return len(q) }

// Less implements [heap.Interface].
func (q revalidationQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

// Swap implements [heap.Interface].
func (q revalidationQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements [heap.Interface].
func (q *revalidationQueue) Push(x any) {
	v := x.(*revalidation)
	v.index = len(*q)
	*q = append(*q, v)
}

// Pop implements [heap.Interface].
func (q *revalidationQueue) Pop() any {
	last := len(*q) - 1
	v := (*q)[last]
	(*q)[last], v.index = nil, -1
	*q = (*q)[:last]
	return v
}

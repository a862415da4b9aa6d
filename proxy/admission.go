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

// identify authenticates a request. until is when the answer expires; it is zero where
// it stands as long as the configuration does.
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

// admit authenticates a request, or answers it. The context of the returned request
// ends when the caller's credential does. The caller of admit must call leave
// afterwards.
func (hf *httpFront) admit(w http.ResponseWriter, r *http.Request) (in *http.Request, id *gate.Identity, leave func()) {
	from := hf.g.opts.Proxies.Client(r)
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

// authChallenge is the reason why a request is answered with an HTTP status and an
// authentication challenge.
type authChallenge struct {
	err   error
	id    mcp.ID     // of the message; empty where none was read
	fault *mcp.Error // the body; nil for the text of the resource
}

// writeChallenge answers a request whose caller is not authenticated, has lost its
// access, or lacks a scope. The answer tells nothing of any server behind the gateway.
func (hf *httpFront) writeChallenge(w http.ResponseWriter, r *http.Request, why *authChallenge) {
	status, text := hf.g.opts.Resource.Refuse(w.Header(), r, why.err)
	fault := why.fault
	if fault == nil {
		fault = mcp.Errorf(mcp.CodeInvalidRequest, "%s", text)
	}
	writeRefused(w, r, status, why.id, fault)
}

// noResource is the [Resource] of a gateway without one: it publishes nothing, and its
// challenges lead nowhere.
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

// sameCaller reports whether two identities are the same caller with the same rights.
func sameCaller(a, b *gate.Identity) bool {
	return a.Rights() == b.Rights()
}

// accessRevokedError is the cancel cause of a request whose caller has lost its access.
type accessRevokedError struct{ err error }

// Error implements error.
func (e *accessRevokedError) Error() string {
	return "the caller has lost its access: " + e.err.Error()
}

// Unwrap returns the error of the authenticator.
func (e *accessRevokedError) Unwrap() error { return e.err }

// errOtherCaller means that a credential now stands for someone else, or for the same
// caller with other rights.
var errOtherCaller = errors.Join(gate.ErrBadCredential, errors.New("it stands for another caller or other rights now"))

// accessRevoked returns why the caller of a request has lost its access, nil while it
// has it.
func accessRevoked(ctx context.Context) error {
	if ended, ok := errors.AsType[*accessRevokedError](context.Cause(ctx)); ok {
		return ended.err
	}
	return nil
}

// scoped returns an error where a caller lacks a scope for something that it may view.
// Only call it after the view decision: the error tells which scope is needed.
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

// CountFailures wraps handlers outside the protocol, such as sign-in pages and signed
// callbacks. A refusal of h counts as a failed authentication of the client's address.
// An address with too many failures gets a 429 before h runs.
func (g *Gateway) CountFailures(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := g.opts.Proxies.Client(r)
		if refused := g.failures.Refused(r, from); refused != nil {
			writeBusy(w, "", refused)
			return
		}
		answer := &statusWriter{ResponseWriter: w}
		h.ServeHTTP(answer, r)
		if answer.status >= http.StatusBadRequest && answer.status < http.StatusInternalServerError && answer.status != http.StatusTooManyRequests {
			g.failures.Count(r.Context(), from)
		}
	})
}

// statusWriter records the status of a response.
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

// revalidation is the context of a request that authenticates the caller again each
// time the last answer expires. It ends the request when the new answer is an error or
// another caller.
type revalidation struct {
	context.Context

	g      *Gateway
	r      *http.Request
	before context.Context // of the request, without the revalidation
	id     *gate.Identity
	cancel context.CancelCauseFunc

	mu   sync.Mutex // held during a check
	over bool

	due   time.Time // of the next check; guarded by revalidations.mu, as is index
	index int       // in the queue; negative when not queued
}

// minRevalidation is the least time between two checks.
const minRevalidation = time.Second

// revalidate schedules the next check of a request's credential.
func (hf *httpFront) revalidate(r *http.Request, id *gate.Identity, until time.Time) *revalidation {
	v := &revalidation{g: hf.g, id: id, index: -1, before: r.Context()}
	v.Context, v.cancel = context.WithCancelCause(r.Context())
	v.r = r.WithContext(v)
	hf.g.revalidations.add(v, until)
	return v
}

// forwardable returns a request without its revalidation: the gateway that it is passed on to
// has its own, and answers.
func forwardable(r *http.Request) *http.Request {
	if v, ok := r.Context().Value(revalidationKey{}).(*revalidation); ok {
		return r.WithContext(v.before)
	}
	return r
}

type revalidationKey struct{}

// Value implements [context.Context].
func (v *revalidation) Value(key any) any {
	if key == (revalidationKey{}) {
		return v
	}
	return v.Context.Value(key)
}

// revalidated reports whether a request may end because its caller loses access.
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

// end stops the revalidation. A check that is under way ends with the context, and end
// waits for it.
func (v *revalidation) end() {
	v.cancel(nil)
	v.mu.Lock()
	v.over = true // so that no check queues it again
	v.mu.Unlock()
	v.g.revalidations.remove(v)
}

// revalidations are all open requests, ordered by the time of their next check. They
// share one timer: a timer for each request would be set and stopped by every call, and
// setting a timer wakes a processor. The zero value is empty.
type revalidations struct {
	mu    sync.Mutex
	queue revalidationQueue
	timer *time.Timer
	fires time.Time // when the timer fires; zero while it is not set
}

// add queues a revalidation for a check at due.
func (all *revalidations) add(v *revalidation, due time.Time) {
	all.mu.Lock()
	defer all.mu.Unlock()
	v.due = due
	heap.Push(&all.queue, v)
	all.schedule()
}

// remove takes a revalidation out of the queue. The timer keeps running, because it
// mostly serves the next one.
func (all *revalidations) remove(v *revalidation) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if v.index >= 0 {
		heap.Remove(&all.queue, v.index)
	}
}

// schedule sets the timer for the first in the queue; mu is held.
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
		all.timer = time.AfterFunc(time.Until(first), all.fire) // may fire once in vain
		return
	}
	all.timer.Reset(time.Until(first))
}

// fire runs the checks that are due, each in a goroutine of its own, which ends with
// its request at the latest.
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

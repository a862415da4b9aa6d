package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// This file lets callers in over HTTP, and out again when what they showed has
// ended.

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

// admit finds out who sent a request, or answers. The request that it returns
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
		hf.turnAway(w, r, &away{err: err})
		return nil, nil, nil
	}
	limit.Known(r.Context())
	if until.IsZero() {
		return r, id, func() {}
	}
	v := hf.newVigil(r, id, until)
	return v.r, id, v.end
}

// away is why a request is answered by an HTTP status and a challenge.
type away struct {
	err   error
	id    mcp.ID     // of the message; empty where none was read
	fault *mcp.Error // the body; nil for what the resource says
}

// turnAway answers a request whose caller is not let in, is not any more, or
// lacks a scope. It says nothing of any server behind the gateway.
func (hf *httpFront) turnAway(w http.ResponseWriter, r *http.Request, why *away) {
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

// grantEnded is the cause of the context of a request whose caller is not let
// in any more.
type grantEnded struct{ err error }

// Error implements error.
func (e *grantEnded) Error() string { return "the caller is not let in any more: " + e.err.Error() }

// Unwrap returns what the authenticator said.
func (e *grantEnded) Unwrap() error { return e.err }

// errOtherCaller is a credential that stands for someone else than before, or
// for the same caller with other rights.
var errOtherCaller = errors.Join(gate.ErrBadCredential, errors.New("it has another meaning now"))

// grantEnd returns why the caller of a request is not let in any more, nil while
// it is.
func grantEnd(ctx context.Context) error {
	if ended, ok := errors.AsType[*grantEnded](context.Cause(ctx)); ok {
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

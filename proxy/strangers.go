package proxy

import (
	"errors"
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// strangers bounds how often an address may show credentials that are none. It is
// asked before a credential is looked at, because looking costs more than
// refusing. Who was let in from there before is let in all the same: many share
// an address, and one of them must not keep out the others.
type strangers struct {
	mu      sync.Mutex
	seed    maphash.Seed
	since   time.Time       // when known was begun
	known   map[uint64]bool // hashes of credentials that were good
	earlier map[uint64]bool // of the time before
}

const (
	// maxKnown is how many good credentials are remembered, twice.
	maxKnown = 16384
	// knownTime is how long one is remembered at least after its last use.
	knownTime = 10 * time.Minute
)

// held returns how long the [limit.Network] of a request is not listened to.
func (g *Gateway) held(r *http.Request, from string) (*refusal.Error, bool) {
	t, bounded := g.token(floodAuth, from)
	if !bounded {
		return nil, false
	}
	refused, wait := g.floods.local.Wait(t)
	if refused < 0 || g.strangers.knows(r) {
		return nil, false
	}
	return g.tooMany(floodAuth, t.Key, t.Rate.Limit, wait), true
}

// showed notes what came of a request's credential. What the gateway could not
// find out says nothing about the caller.
func (g *Gateway) showed(r *http.Request, from string, err error) {
	t, bounded := g.token(floodAuth, from)
	switch {
	case !bounded:
	case err == nil:
		g.strangers.remember(r)
	case errors.Is(err, gate.ErrNoCredential), errors.Is(err, gate.ErrBadCredential), errors.Is(err, gate.ErrForbidden):
		g.floods.local.Take(t)
	}
}

// credential is a hash of what a request shows; false where that is nothing, or
// a client certificate, which the handshake has verified.
func (s *strangers) credential(r *http.Request) (uint64, bool) {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return 0, false
	}
	return maphash.String(s.seed, values[0]), true
}

// knows tells whether a request shows what was good a while ago.
func (s *strangers) knows(r *http.Request) bool {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return true
	}
	key, ok := s.credential(r)
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[key] || s.earlier[key]
}

// remember notes that what a request shows is good.
func (s *strangers) remember(r *http.Request) {
	key, ok := s.credential(r)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[key] && time.Since(s.since) < knownTime {
		return
	}
	if s.known == nil || len(s.known) >= maxKnown || time.Since(s.since) >= knownTime {
		s.earlier, s.known, s.since = s.known, make(map[uint64]bool), time.Now()
	}
	s.known[key] = true
}

// CountFailures is a handler of what is not the protocol, such as pages that people
// sign in by and answers that are signed. What it refuses counts as a failed
// authentication of the address, and an address with too many is answered 429 before
// anything is looked at.
func (g *Gateway) CountFailures(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := limit.Network(r.RemoteAddr)
		if refused, held := g.held(r, from); held {
			writeBusy(w, "", refused)
			return
		}
		answer := &statusWriter{ResponseWriter: w}
		h.ServeHTTP(answer, r)
		if answer.status >= http.StatusBadRequest && answer.status < http.StatusInternalServerError && answer.status != http.StatusTooManyRequests {
			if t, bounded := g.token(floodAuth, from); bounded {
				g.floods.local.Take(t)
			}
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

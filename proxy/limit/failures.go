package limit

import (
	"errors"
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
)

const (
	// maxKnown is how many good credentials are remembered, twice.
	maxKnown = 16384
	// knownTime is how long one is remembered at least after its last use.
	knownTime = 10 * time.Minute
)

// Failures bounds how often an address may send a credential that is not valid. It is
// asked before a credential is looked at, because looking costs more than refusing.
// A credential that was valid a while ago is let in all the same: many share an
// address, and one of them must not keep out the others. Make one with [NewFailures].
// It is safe for concurrent use.
type Failures struct {
	requests *Requests
	seed     maphash.Seed

	mu      sync.Mutex
	since   time.Time       // when known was begun
	known   map[uint64]bool // hashes of credentials that were good
	earlier map[uint64]bool // of the time before
}

// NewFailures returns a limiter whose bound is [Rates.AuthFailures] of a limiter of
// requests.
func NewFailures(requests *Requests) *Failures {
	return &Failures{requests: requests, seed: maphash.MakeSeed()}
}

// Refused returns the [*refusal.Error] of a request from a [Network] that has sent too
// many bad credentials, nil where the credential is to be looked at.
func (f *Failures) Refused(r *http.Request, from string) error {
	return f.requests.spent(AuthFailures, from, func() bool { return f.knows(r) })
}

// Note takes what came of a request's credential. An error of the gateway's own says
// nothing about the caller.
func (f *Failures) Note(r *http.Request, from string, err error) {
	switch {
	case err == nil:
		if _, bounded := f.requests.token(AuthFailures, from); bounded {
			f.remember(r)
		}
	case errors.Is(err, gate.ErrNoCredential), errors.Is(err, gate.ErrBadCredential), errors.Is(err, gate.ErrForbidden):
		f.Count(from)
	}
}

// Count counts a failed authentication of a network.
func (f *Failures) Count(from string) { f.requests.count(AuthFailures, from) }

// credential is a hash of what a request shows; false where that is nothing, or
// a client certificate, which the handshake has verified.
func (f *Failures) credential(r *http.Request) (uint64, bool) {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return 0, false
	}
	return maphash.String(f.seed, values[0]), true
}

// knows tells whether a request shows what was good a while ago.
func (f *Failures) knows(r *http.Request) bool {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return true
	}
	key, ok := f.credential(r)
	if !ok {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[key] || f.earlier[key]
}

// remember notes that what a request shows is good.
func (f *Failures) remember(r *http.Request) {
	key, ok := f.credential(r)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[key] && time.Since(f.since) < knownTime {
		return
	}
	if f.known == nil || len(f.known) >= maxKnown || time.Since(f.since) >= knownTime {
		f.earlier, f.known, f.since = f.known, make(map[uint64]bool), time.Now()
	}
	f.known[key] = true
}

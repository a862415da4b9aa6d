package limit

import (
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
)

const (
	// maxKnown is how many valid credentials one generation remembers.
	maxKnown = 16384
	// knownTime is how long a credential is remembered at least after its last use.
	knownTime = 10 * time.Minute
)

// Failures bounds how often an address may send an invalid credential. It is asked
// before a credential is verified, because verifying costs more than refusing.
// Credentials that were valid a while ago are still let through: many callers may share
// an address, and one of them must not keep out the others. Create one with
// [NewFailures]. It is safe for concurrent use.
type Failures struct {
	requests *Requests
	seed     maphash.Seed

	mu      sync.Mutex
	since   time.Time       // start of known
	known   map[uint64]bool // hashes of credentials that were valid
	earlier map[uint64]bool // the previous generation
}

// NewFailures returns a limiter with the limit [Rates.AuthFailures] of requests.
func NewFailures(requests *Requests) *Failures {
	return &Failures{requests: requests, seed: maphash.MakeSeed()}
}

// Refused returns a [*refusal.Error] for a request from a [Network] that has sent too
// many invalid credentials, nil where the credential should be verified.
func (f *Failures) Refused(r *http.Request, from string) error {
	return f.requests.check(r.Context(), AuthFailures, from, func() bool { return f.knows(r) })
}

// Note records the result of verifying a request's credential. An error of the gateway
// itself tells nothing about the caller.
func (f *Failures) Note(r *http.Request, from string, err error) {
	switch {
	case err == nil:
		if _, bounded := f.requests.token(AuthFailures, from); bounded {
			f.remember(r)
		}
	case errors.Is(err, gate.ErrNoCredential), errors.Is(err, gate.ErrBadCredential), errors.Is(err, gate.ErrForbidden):
		f.Count(r.Context(), from)
	}
}

// Count counts a failed authentication of a network, also when its client has left.
func (f *Failures) Count(ctx context.Context, from string) {
	f.requests.count(context.WithoutCancel(ctx), AuthFailures, from)
}

// credential returns a hash of the request's credential. It returns false without one,
// and for a client certificate, which the TLS handshake has verified.
func (f *Failures) credential(r *http.Request) (uint64, bool) {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return 0, false
	}
	return maphash.String(f.seed, values[0]), true
}

// knows reports whether the request's credential was valid a while ago.
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

// remember records the request's credential as valid.
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

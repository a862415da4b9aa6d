package credential

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/upstream/oauth"
)

// LoginError says that a person has to sign in before requests can be made.
type LoginError struct {
	Server string
	Why    string // a sentence's end for people, without secrets
	// Final tells that signing in again changes nothing.
	Final bool
	Err   error // what it comes of; nil where there is nothing else
}

// Error implements error.
func (e *LoginError) Error() string {
	if e.Final {
		return e.Server + " cannot be signed in to: " + e.Why
	}
	return e.Server + " needs somebody to sign in: " + e.Why
}

// Unwrap returns what the error comes of, nil where that is all.
func (e *LoginError) Unwrap() error { return e.Err }

// NeedsLogin tells whether signing in would help.
func (e *LoginError) NeedsLogin() bool { return !e.Final }

// Source is the credential of one server, for all its principals. It implements
// the credential of an upstream server: asked for headers it returns those of the
// principal, and renews them where it has to. It is safe for concurrent use.
type Source struct {
	set    Settings
	opts   Options
	client *oauth.Client

	self   string // among all that renew the same credentials
	own    holders
	shared *holder // where all share one

	mu    sync.Mutex
	found *place // what is known of the authorization server; nil when nothing is

	takes    atomic.Int32 // what the server takes, as far as it is known
	nonces   oauth.Nonces // of the server
	asNonces oauth.Nonces // of authorization servers
}

// place is an authorization server with what it is asked for.
type place struct {
	issuer   string
	resource string
	of       *oauth.Resource // nil where the server says nothing of itself
	metadata *oauth.Metadata
	until    time.Time
}

// New returns a source. client asks authorization servers.
func New(set Settings, client *oauth.Client, opts Options) *Source {
	s := &Source{set: set, opts: opts, client: client, self: rand.Text()}
	s.opts.Logger = opts.Logger.With("server", set.Server)
	s.own.most = cmp.Or(max(0, opts.Principals), defaultPrincipals)
	s.own.made = func(principal string) *holder { return newHolder(s, principal) }
	if set.Shared {
		s.shared = newHolder(s, "")
	}
	return s
}

// Settings returns what the source was made of.
func (s *Source) Settings() Settings { return s.set }

// owner returns whose credential a principal uses.
func (s *Source) owner(principal string) string {
	if s.set.Shared {
		return ""
	}
	return principal
}

// asked returns whose credential a request needs.
func (s *Source) asked(ctx context.Context, principal string) string {
	if s.set.Key == nil {
		return principal
	}
	return s.set.Key(ctx, principal)
}

// acquire returns the holder of a principal's credential, which is the only one
// until release is called.
func (s *Source) acquire(principal string) (h *holder, release func()) {
	if s.shared != nil {
		return s.shared, func() {}
	}
	h = s.own.acquire(principal)
	return h, func() { s.own.release(h) }
}

// known returns the holder of a principal's credential, nil where there is none.
func (s *Source) known(principal string) *holder {
	if s.shared != nil {
		return s.shared
	}
	return s.own.find(principal)
}

// Headers returns the headers to send for a principal. They belong to the source.
// The error is a [LoginError] where a person has to sign in.
func (s *Source) Headers(ctx context.Context, principal string) (http.Header, error) {
	now, err := s.shown(ctx, principal)
	if err != nil {
		return nil, err
	}
	return now.header, nil
}

// shown returns what is sent for a principal.
func (s *Source) shown(ctx context.Context, principal string) (*ready, error) {
	principal = s.asked(ctx, principal)
	if h := s.known(principal); h != nil {
		if now := h.ready.Load(); now != nil && (now.until.IsZero() || time.Now().Before(now.until)) {
			h.mark()
			return now, nil
		}
	}
	h, release := s.acquire(principal)
	defer release()
	return h.shown(ctx)
}

// Key names the credential that a principal uses, without revealing it.
func (s *Source) Key(principal string) string {
	if s.set.Shared {
		return "shared"
	}
	return "of " + principal
}

// Refused takes the news that the server did not accept what was sent. It returns
// true when there is something else to be sent now; the error says why there is
// not, and is nil where that is the operator's affair.
func (s *Source) Refused(ctx context.Context, principal string, sent http.Header, status int, answer http.Header) (again bool, err error) {
	h, release := s.acquire(s.asked(ctx, principal))
	defer release()
	return h.refused(ctx, sent, status, answer)
}

// Forget takes the news that a credential may be another one: of a principal, or
// with all of everyone. It is read again when it is next needed.
func (s *Source) Forget(principal string) {
	if h := s.known(principal); h != nil {
		h.forget()
	}
}

// ForgetAll is Forget for everyone.
func (s *Source) ForgetAll() {
	if s.shared != nil {
		s.shared.forget()
	}
	s.own.all.Range(func(_, h any) bool {
		h.(*holder).forget()
		return true
	})
}

// Close tells that the credentials are not used any more. It is called once the server
// has ended that they are of.
func (s *Source) Close() {
	if s.shared != nil {
		s.shared.close()
	}
	s.own.all.Range(func(_, h any) bool {
		h.(*holder).close()
		return true
	})
}

// locate finds the server's authorization server. A challenge that tells where to
// look is looked at again.
func (s *Source) locate(ctx context.Context, said oauth.Challenge, anew bool) (*place, error) {
	s.mu.Lock()
	known := s.found
	s.mu.Unlock()
	if known != nil && !anew && time.Now().Before(known.until) {
		return known, nil
	}
	p := &place{until: time.Now().Add(metadataTime)}
	var err error
	if p.resource, err = oauth.Canonical(s.set.URL); err != nil {
		return nil, err
	}
	p.of, err = s.client.FindResource(ctx, s.set.URL, said)
	switch {
	case err == nil:
		p.resource = p.of.Resource
		p.issuer = p.of.Servers[0]
	case !errors.Is(err, oauth.ErrNotProtected):
		return nil, err
	case s.set.Issuer != "":
		p.issuer = s.set.Issuer
	default: // as 2025-03-26 had it
		if p.issuer, err = oauth.Origin(s.set.URL); err != nil {
			return nil, err
		}
	}
	if s.set.Issuer != "" && p.issuer != s.set.Issuer {
		p.issuer = ""
		for _, issuer := range p.of.Servers {
			if issuer == s.set.Issuer {
				p.issuer = issuer
			}
		}
		if p.issuer == "" {
			return nil, fmt.Errorf("the server names other authorization servers than auth.issuer; nothing is sent there")
		}
	}
	if p.metadata, err = s.client.FindServer(ctx, p.issuer); err != nil {
		if p.of == nil && s.set.Issuer == "" {
			return nil, oauth.ErrNotProtected
		}
		return nil, err
	}
	s.mu.Lock()
	s.found = p
	s.mu.Unlock()
	return p, nil
}

// registered returns the client of the configuration for an authorization server,
// nil when there is none. One that is of another authorization server is an error.
func (s *Source) registered(m *oauth.Metadata) (*oauth.Registration, error) {
	if s.set.Client == nil {
		return nil, nil
	}
	r := *s.set.Client
	switch {
	case r.Issuer == "" && (r.Secret != "" || r.Key != nil):
		return nil, errors.New("it is not configured at which authorization server the client is registered (auth.issuer); nothing is sent to one that the server alone names")
	case r.Issuer == "":
		r.Issuer = m.Issuer
	case r.Issuer != m.Issuer:
		return nil, errors.New("the client of the configuration is registered at another authorization server than the one that the server names now")
	}
	return &r, nil
}

// ready is a header that is sent until a time; zero is until something is heard.
type ready struct {
	header http.Header
	until  time.Time
	// token is the one in the header where it is bound to key, which each request has
	// to prove; nil for one that is not.
	token string
	key   *oauth.ProofKey
}

func (s *Source) with(name, value string) http.Header {
	h := maps.Clone(s.set.Headers)
	if h == nil {
		h = make(http.Header)
	}
	if value != "" {
		h.Set(name, value)
	}
	return h
}

// holder is the credential of one principal.
type holder struct {
	standing
	s         *Source
	principal string

	// ready is written with mu, with what was read since the credential was last
	// forgotten.
	ready     atomic.Pointer[ready]
	mu        sync.Mutex
	forgotten uint64            // how often; guarded by mu
	hidden    map[string]func() // secrets in use, with what retires each; guarded by mu
	closed    bool              // guarded by mu

	turn chan struct{} // capacity 1: who has put something in looks after the credential

	// What follows belongs to whoever has the turn.
	seen      uint64 // forgotten, before the credential was read
	rec       *record
	unsaved   *record // a renewal that could not be kept yet
	said      oauth.Challenge
	refusedOf string    // the header that a renewal gave,
	gaveAt    time.Time // and when
	wider     []string
	stepUps   int
	restUntil time.Time
	restErr   error
	rejected  *rejection // of a workload's assertion; nil for none

	why atomic.Pointer[LoginError] // why somebody has to sign in; nil while nobody has
}

func newHolder(s *Source, principal string) *holder {
	return &holder{s: s, principal: principal, turn: make(chan struct{}, 1)}
}

// take waits for the turn.
func (h *holder) take(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *holder) give() { <-h.turn }

// forget has the credential read again when it is next needed, also by those who are
// at it: once it returns nothing is made ready of what was read before.
func (h *holder) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgotten++
	h.ready.Store(nil)
}

// hide has these secrets hidden, those of now, and retires those of before.
func (h *holder) hide(secrets ...string) {
	if h.s.opts.Hide == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := make(map[string]func(), len(secrets))
	for _, secret := range secrets {
		switch retire, known := h.hidden[secret]; {
		case secret == "" || now[secret] != nil:
		case known:
			now[secret] = retire
		default:
			now[secret] = h.s.opts.Hide(secret)
		}
	}
	for secret, retire := range h.hidden {
		if now[secret] == nil {
			retire()
		}
	}
	if h.hidden = now; h.closed {
		h.retire()
	}
}

// retire ends the use of all secrets; mu is held.
func (h *holder) retire() {
	for _, retire := range h.hidden {
		retire()
	}
	h.hidden = nil
}

// close is [Source.Close].
func (h *holder) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.retire()
}

// look begins to read the credential. The caller has the turn, as for what follows.
func (h *holder) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen != h.forgotten && h.s.set.Mode == OAuth {
		h.stepUps = 0 // somebody may have signed in with the rights that were asked for
	}
	h.seen = h.forgotten
}

// outdated tells whether the credential was forgotten since the last look.
func (h *holder) outdated() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen != h.forgotten
}

// show makes headers ready for requests, nil for none. What is outdated is not.
func (h *holder) show(now *ready) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now == nil || h.seen == h.forgotten {
		h.ready.Store(now)
	}
}

// shown is [Source.shown] where nothing is ready.
func (h *holder) shown(ctx context.Context) (*ready, error) {
	if err := h.take(ctx); err != nil {
		return nil, err
	}
	defer h.give()
	if now := h.ready.Load(); now != nil && (now.until.IsZero() || time.Now().Before(now.until)) {
		return now, nil // somebody else was faster
	}
	return h.obtain(ctx, "")
}

package credential

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/upstream/oauth"
)

// refused is [Source.Refused].
func (h *holder) refused(ctx context.Context, sent http.Header, status int, answer http.Header) (again bool, err error) {
	said, challenged := oauth.ParseChallenge(answer)
	if status == http.StatusForbidden && said.Error != "insufficient_scope" {
		return false, nil // the token is good, and does not allow this
	}
	if err := h.take(ctx); err != nil {
		return false, err
	}
	defer h.give()
	h.look()
	name := headerAuthorization
	if h.s.set.Mode == APIKey {
		name = http.CanonicalHeaderKey(h.s.set.Header)
	}
	was := sent.Get(name)
	if now := h.ready.Load(); now != nil && now.header.Get(name) != was {
		return true, nil // there is another one already
	}
	before := h.said
	if challenged {
		h.said = said
		if status == http.StatusUnauthorized {
			h.s.learn(said)
		}
	}
	switch {
	case strings.HasPrefix(was, oauth.SchemeBound) && said.RefusesProof():
		return false, h.s.unproven(said)
	case h.s.set.Mode == APIKey:
		return false, h.needs("the key is not accepted", false)
	case status == http.StatusForbidden:
		again, err = h.stepUp(ctx, said)
		if oauth.Refused(err) {
			h.said = before // what it wants is not to be had
		}
		return again, err
	case was == "" && h.s.set.Mode == OAuth:
		if h.why.Load() == nil && !h.signsIn(ctx, said) {
			return false, nil // it asks for something else than signing in
		}
		return false, h.needs("nobody has signed in", false)
	case was != "" && was == h.refusedOf && time.Since(h.gaveAt) < steady:
		return false, h.needs("the server does not accept the tokens that it is given", false)
	}
	h.show(nil)
	if h.s.moved(ctx, said, h.rec) {
		h.rec = nil
		if h.s.set.Mode == OAuth {
			_, _ = h.s.opts.Vault.Delete(ctx, h.s.set.Server, h.s.owner(h.principal))
			return false, h.needs("the server has another authorization server than before", false)
		}
	}
	now, err := h.obtain(ctx, was)
	if err != nil {
		return false, err
	}
	if got := now.header.Get(name); got != was {
		h.refusedOf, h.gaveAt = got, time.Now() // so that its refusal, if that comes at once, is the last
		return true, nil
	}
	return false, h.needs("the server does not accept the login", false)
}

// signsIn tells whether the server has an authorization server that could be
// signed in to.
func (h *holder) signsIn(ctx context.Context, said oauth.Challenge) bool {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	_, err := h.s.locate(ctx, said, true)
	if err != nil && !errors.Is(err, oauth.ErrNotProtected) {
		h.s.opts.Logger.Warn("the server asks for a login that cannot be begun", "err", err)
	}
	return err == nil
}

// moved tells whether the server names another authorization server than the one
// that gave the token.
func (s *Source) moved(ctx context.Context, said oauth.Challenge, rec *record) bool {
	if rec == nil || rec.key.Issuer == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	r, err := s.client.FindResource(ctx, s.set.URL, said)
	if err != nil {
		return false // what cannot be read changes nothing
	}
	if slices.Contains(r.Servers, rec.key.Issuer) {
		return false
	}
	s.mu.Lock()
	s.found = nil
	s.mu.Unlock()
	return true
}

// stepUp asks for more scopes than before, a bounded number of times. In the modes
// in which nobody signs in that is done at once.
func (h *holder) stepUp(ctx context.Context, said oauth.Challenge) (again bool, err error) {
	var had []string
	if h.rec != nil {
		had = oauth.Union(h.rec.Requested, h.rec.Token.Scopes)
	}
	wider := oauth.Union(h.wider, had, said.Scope)
	more := !oauth.Covers(h.wider, wider) // or somebody calls again who has not signed in since
	if len(said.Scope) == 0 || oauth.Covers(had, said.Scope) || more && h.stepUps >= maxStepUps {
		return false, &LoginError{Server: h.s.set.Server, Why: "the server wants more rights than a login gives", Final: true}
	}
	if more {
		h.stepUps++
	}
	before := h.wider
	h.wider = wider
	if h.s.set.Mode == OAuth {
		// What the token allows it still does: the other calls go on with it.
		return false, &LoginError{Server: h.s.set.Server, Why: "this needs more rights than were given at the login"}
	}
	rec, err := h.fetch(ctx)
	if oauth.Refused(err) {
		h.wider = before // or a token with what is given would not be had any more
		return false, &LoginError{Server: h.s.set.Server, Why: "the server wants more rights than toolgate is given", Final: true, Err: err}
	}
	if err != nil {
		return false, err
	}
	if err := h.save(ctx, rec); err != nil {
		return false, err
	}
	h.use()
	return true, nil
}

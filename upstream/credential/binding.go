package credential

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/upstream/oauth"
)

// This file is about tokens that are bound to a key (RFC 9449): when they are asked
// for, and what is sent with them.

// What a server takes, as far as it is known.
const (
	takesUnknown int32 = iota
	takesBearer        // its challenges offer nothing else
	takesOffered       // its challenges offer bound tokens
	takesBound         // it has taken one
)

// learn notes what a challenge of the server offers. A server that has taken a bound
// token is not talked out of it by a challenge that forgets to name the scheme.
func (s *Source) learn(said oauth.Challenge) {
	now := takesBearer
	if said.Bound {
		now = takesOffered
	}
	for {
		was := s.takes.Load()
		if was == takesBound || was == now || s.takes.CompareAndSwap(was, now) {
			return
		}
	}
}

// binds returns the algorithm of the key that a token of an authorization server is to
// be bound to, empty for none.
func (s *Source) binds(of *oauth.Resource, m *oauth.Metadata) (string, error) {
	if s.set.Binding == BindOff {
		return "", nil
	}
	var taken []string
	if of != nil {
		taken = of.Proofs
	}
	alg := oauth.ProofAlgorithm(m.Proofs, taken)
	if s.set.Binding == BindRequired {
		if alg == "" {
			return "", fmt.Errorf("tokens have to be bound to a key (auth.dpop), and the authorization server or the server knows none of the algorithms %s", strings.Join(oauth.ProofAlgorithms, ", "))
		}
		return alg, nil
	}
	offered := of != nil && (of.ProofsOnly || len(of.Proofs) > 0)
	if len(m.Proofs) == 0 || !offered && s.takes.Load() == takesBearer {
		return "", nil
	}
	return alg, nil
}

// binding returns who asks for a token, and the key that it is to be bound to, nil for
// none: the one of the last token of the same issuer where there is one.
func (h *holder) binding(p *place, m *oauth.Metadata) (*oauth.Client, *oauth.ProofKey, error) {
	alg, err := h.s.binds(p.of, m)
	if alg == "" || err != nil {
		return h.s.client, nil, err
	}
	b := oauth.Binding{Required: h.s.set.Binding == BindRequired, Nonces: &h.s.asNonces}
	if h.rec != nil && h.rec.key.Issuer == p.issuer {
		b.Required = b.Required || h.rec.Token.Bound
		if h.rec.Proof != nil && h.rec.Proof.Algorithm() == alg {
			b.Key = h.rec.Proof
		}
	}
	if b.Key == nil {
		if b.Key, err = oauth.NewProofKey(alg); err != nil {
			return nil, nil, err
		}
	}
	return h.s.client.Bound(b), b.Key, nil
}

// bindsLogin returns who sends a person away: with a new key, as a login is a new
// credential.
func (s *Source) bindsLogin(p *place) (*oauth.Client, error) {
	alg, err := s.binds(p.of, p.metadata)
	if alg == "" || err != nil {
		return s.client, err
	}
	key, err := oauth.NewProofKey(alg)
	if err != nil {
		return nil, err
	}
	return s.client.Bound(oauth.Binding{Key: key}), nil
}

// allows tells whether what is kept may be used still: the configuration may be
// another one than when it was given.
func (b Binding) allows(c *content) bool {
	switch {
	case c.Token.Bound:
		return c.Proof != nil && b != BindOff
	default:
		return b != BindRequired
	}
}

const headerAuthorization = "Authorization"

// Prove implements the proving credential of an upstream server: it sets the token
// of a principal, and where that is bound to a key a proof for the very request. nonce
// is the one that the server wants, empty for the newest that is known.
func (s *Source) Prove(r *http.Request, principal, nonce string) error {
	now, err := s.shown(r.Context(), principal)
	if err != nil {
		return err
	}
	// Since the request was made there may be another token, of another key.
	delete(r.Header, headerAuthorization)
	if shown := now.header[headerAuthorization]; shown != nil {
		r.Header[headerAuthorization] = shown
	}
	if now.key == nil {
		delete(r.Header, oauth.HeaderProof)
		return nil
	}
	if nonce == "" {
		nonce = s.nonces.Newest(r.URL)
	}
	proof, err := now.key.Prove(r.Method, r.URL, now.token, nonce)
	if err != nil {
		return err
	}
	r.Header[oauth.HeaderProof] = []string{proof}
	return nil
}

// Answered takes the answer to a request with a proof, nonce as Prove was given it. It
// returns the nonce that the server wants in another proof, empty where it has looked at
// the request.
func (s *Source) Answered(r *http.Request, nonce string, status int, answer http.Header) (wanted string) {
	if status == http.StatusUnauthorized {
		if said, ok := oauth.ParseChallenge(answer); ok && said.WantsNonce() {
			return oauth.GivenNonce(answer)
		}
	}
	s.nonces.Accepted(r.URL, nonce, answer)
	if status/100 == 2 && s.takes.Load() != takesBound {
		s.takes.Store(takesBound)
	}
	return ""
}

// unproven is the error of a server that refuses proofs. The token is none the worse,
// and another one would fare no better.
func (s *Source) unproven(said oauth.Challenge) error {
	why := "the server does not accept the proof of the token's key; the clocks may differ, or it is known there by another URL than " + s.set.URL
	if said.WantsNonce() {
		why = "the server wants another nonce in the proof of every request"
	}
	return &LoginError{Server: s.set.Server, Why: why, Final: true}
}

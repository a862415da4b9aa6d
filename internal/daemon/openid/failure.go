package openid

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"

	"github.com/toolgate/toolgate/proxy/auth"
	"github.com/toolgate/toolgate/upstream/oauth"
)

// kind is what keeps somebody from signing in, as far as people can do something about it.
type kind int

const (
	unknown     kind = iota
	gone             // the settings have no such issuer
	unreachable      // the issuer does not answer, or has a problem of its own
	metadataBad      // what the issuer says of itself
	nameless         // the answers of one of several issuers do not name it
	noProof          // no PKCE
	foreign          // the answer is of another sign-in
	cancelled        // the issuer, or the person, did not want to
	client           // the issuer does not take the client of this gateway
	codeOver
	noToken // no ID token
	otherNonce
	otherClient
	clocks
	claims
	notVerified
)

// advice is what a person can do. It repeats nothing of what the issuer or the browser said.
var advice = [...]string{
	unknown:     "The issuer did not sign you in. Begin again; if it goes on, whoever runs this gateway finds the cause in its log.",
	gone:        "Nobody signs in there any more. Choose another way on this page.",
	unreachable: "The issuer does not answer, or has a problem of its own. Try again in a minute; if it goes on, whoever runs this gateway finds the cause in its log.",
	metadataBad: "What the issuer says of itself cannot be used. Whoever runs this gateway has to check the address in auth.jwt.issuer, and finds the cause in the log.",
	nameless:    "This issuer does not name itself in its answers, so that it has to be the only one with auth.jwt.console. Whoever runs this gateway has to take that from the others.",
	noProof:     "The issuer says that it does not support PKCE with S256, without which nobody signs in here. Whoever runs the issuer has to allow it for this client.",
	foreign:     "The answer is not of the sign-in that this browser has begun. Begin again on this page, and not by a link from elsewhere.",
	cancelled:   "The issuer did not let you in, or you have cancelled. If you ought to get in, ask whoever runs the issuer to assign this client to you.",
	client:      "The issuer does not take this gateway as a client. Whoever runs the gateway has to compare client_id, client_secret, scopes and the redirect URI with the client at the issuer.",
	codeOver:    "The code of the issuer was over, or used before. Begin again, and do not load the page again on your way back.",
	noToken:     "The issuer gave no ID token. Whoever runs the issuer has to let this client use OpenID Connect, with the scope openid.",
	otherNonce:  "The ID token belongs to another sign-in. Begin again, in one tab alone.",
	otherClient: "The ID token was made for another client. Whoever runs this gateway has to compare auth.jwt.console.client_id with the client at the issuer.",
	clocks:      "The ID token is over, or not good yet. Either the clocks of the issuer and of this gateway are apart, and whoever runs them has to set them, or the issuer gives ID tokens a life of seconds.",
	claims:      "The ID token does not say who you are in the way that auth.jwt.claims expects. Whoever runs this gateway has to compare them, and finds the claim in the log.",
	notVerified: "The ID token cannot be verified. Begin again; if it goes on, whoever runs this gateway finds the cause in its log.",
}

// Failure is why somebody could not sign in. Its text is for the log. It implements
// console.Advised.
type Failure struct {
	kind kind
	err  error
}

// failed returns the error with its kind; nil for none.
func failed(k kind, err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*Failure](err); ok {
		return known
	}
	return &Failure{k, err}
}

// Error implements error.
func (f *Failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.err }

// Advice says what to do about it, without anything secret.
func (f *Failure) Advice() string { return advice[f.kind] }

// Elsewhere tells that neither the browser nor the person is at fault.
func (f *Failure) Elsewhere() bool {
	return slices.Contains([]kind{unreachable, metadataBad, nameless, noProof, client}, f.kind)
}

// ofBegin is the kind of an error of the way to the issuer.
func ofBegin(err error) kind {
	if errors.Is(err, oauth.ErrNoProof) {
		return noProof
	}
	return metadataBad
}

// ofAnswer is the kind of an error of what a browser came back with.
func ofAnswer(err error) kind {
	if errors.Is(err, oauth.ErrForeignAnswer) {
		return foreign
	}
	said, ok := errors.AsType[*oauth.Error](err)
	if !ok {
		return unknown
	}
	switch said.Code {
	case "access_denied", "login_required", "interaction_required", "consent_required", "account_selection_required":
		return cancelled
	}
	return ofCode(said)
}

// ofCode is the kind of an error that an issuer names (RFC 6749 sections 4.1.2.1 and 5.2).
func ofCode(e *oauth.Error) kind {
	switch e.Code {
	case "temporarily_unavailable", "server_error":
		return unreachable
	case "invalid_grant":
		return codeOver
	case "invalid_client", "unauthorized_client", "invalid_scope", "invalid_request", "unsupported_response_type", "unsupported_grant_type":
		return client
	}
	if e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError {
		return unreachable
	}
	return unknown
}

// ofToken is the kind of an error of a token request.
func ofToken(err error) kind {
	if said, ok := errors.AsType[*oauth.Error](err); ok {
		return ofCode(said)
	}
	if unanswered(err) {
		return unreachable
	}
	return unknown
}

// ofMetadata is the kind of an error of a request for the metadata of an issuer.
func ofMetadata(err error) kind {
	if _, ok := errors.AsType[*oauth.Error](err); ok || unanswered(err) {
		return unreachable
	}
	return metadataBad
}

// unanswered tells whether an error is of the way to an issuer.
func unanswered(err error) bool {
	_, network := errors.AsType[net.Error](err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	return network || certificate || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// ofIDToken is the kind of an error of an ID token.
func ofIDToken(err error) kind {
	for is, k := range map[error]kind{
		auth.ErrUnavailable: unreachable, auth.ErrNonce: otherNonce, auth.ErrClient: otherClient, auth.ErrClock: clocks, auth.ErrClaims: claims,
	} {
		if errors.Is(err, is) {
			return k
		}
	}
	return notVerified
}

// errOver is the error of an ID token that is good within the leeway alone. A session of it
// would end as it begins, and the browser would go round in a circle.
var errOver = fmt.Errorf("the ID token is over within the leeway (%w)", auth.ErrClock)

package transport

import (
	"context"
	"net/http"
)

// Credential authenticates the gateway to a server. It is asked for every request.
type Credential interface {
	// Headers returns the headers to send for a principal, or for another holder of a
	// credential. The context is that of the request.
	Headers(ctx context.Context, principal string) (http.Header, error)
	// Key names the credential that a principal uses, without revealing it. Principals
	// with the same key share catalogs and subscriptions.
	Key(principal string) string
}

// Renewing is a [Credential] that can react when a server does not accept it.
type Renewing interface {
	Credential
	// Refused is told that the server did not accept what was sent for a principal. status
	// is 401 or 403, answer is the header of the answer. It returns true if Headers has
	// something else to send now. The error says for people why there is nothing else; nil
	// leaves that to the status.
	Refused(ctx context.Context, principal string, sent http.Header, status int, answer http.Header) (again bool, err error)
}

// Proving is a [Credential] that may be bound to a key. Its headers are valid only
// together with a proof that is made for each request (RFC 9449).
type Proving interface {
	Credential
	// Prove sets the token of a principal on a request that is about to be sent, with a
	// proof if the token is bound to a key. nonce is the one that the server wants in the
	// proof; empty stands for the newest known one.
	Prove(r *http.Request, principal, nonce string) error
	// Answered is told the status and the header of the answer to a request with a proof.
	// nonce is what Prove was given. It returns the nonce that the server wants before it
	// looks at the request; empty if the server has looked at it.
	Answered(r *http.Request, nonce string, status int, answer http.Header) (wanted string)
}

// schemeBound begins the Authorization header of a credential that is bound to a key.
const schemeBound = "DPoP "

// renewals is how often one request is repeated with another credential.
const renewals = 3

// MissingError is implemented by the error of a [Credential] that is missing until
// somebody signs in.
type MissingError interface {
	error
	// NeedsLogin tells whether signing in would help.
	NeedsLogin() bool
}

package transport

import (
	"context"
	"net/http"
)

// Credential is what a server is given to authenticate the gateway. It is
// asked for every request.
type Credential interface {
	// Headers returns the headers to send for a principal, or for a holder of a
	// per-principal server. The context is that of the request.
	Headers(ctx context.Context, principal string) (http.Header, error)
	// Key names the credential that a principal uses, without revealing it:
	// principals with the same key share catalogs and watches.
	Key(principal string) string
}

// Renewing is a [Credential] that can do something about a server that does not
// accept it.
type Renewing interface {
	Credential
	// Refused takes what was sent to the server for a principal, with the status,
	// 401 or 403, and the header of its answer. It returns true when [Headers] has
	// something else to send now. The error tells why there is nothing, as a
	// sentence for people; nil leaves it to the status.
	Refused(ctx context.Context, principal string, sent http.Header, status int, answer http.Header) (again bool, err error)
}

// Proving is a [Credential] that may be bound to a key: its headers are good together
// with a proof alone, which is made for each request (RFC 9449).
type Proving interface {
	Credential
	// Prove sets the token of a principal on a request that is about to be sent, with
	// a proof where it is bound to a key. nonce is the one that the server
	// wants in it, empty for the newest that is known.
	Prove(r *http.Request, principal, nonce string) error
	// Answered takes the status and the header of the answer to a request with a
	// proof, nonce as Prove was given it. It returns the nonce that the server wants
	// before it looks at the request, empty where it has looked at it.
	Answered(r *http.Request, nonce string, status int, answer http.Header) (wanted string)
}

// schemeBound begins the Authorization header of a credential that is bound to a key.
const schemeBound = "DPoP "

// renewals is how often one request is sent again with another credential.
const renewals = 3

// MissingError is implemented by errors of a [Credential] that is missing until
// somebody signs in.
type MissingError interface {
	error
	// NeedsLogin tells whether signing in would help.
	NeedsLogin() bool
}

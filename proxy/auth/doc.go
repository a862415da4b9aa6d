// Package auth finds out who is calling over HTTP.
//
// An authenticator returns an identity or an error; a request is never served
// without an identity. [Keys] takes toolgate's own API keys, [Loopback] is the
// gateway without authentication, which serves its own machine alone.
package auth

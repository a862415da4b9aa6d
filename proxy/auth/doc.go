// Package auth finds out who is calling over HTTP.
//
// An authenticator returns an identity or an error; a request is never served
// without an identity. Everything here refuses in its zero value.
//
//	Authorization header ── API key? ──> [Keys]
//	                     ── signed token of a known issuer? ──> [JWT]
//	                     ── anything else ──> [Introspection]
//	client certificate, without a header ──> [Certificates]
//
// [Chain] is that picture. [Loopback] is the gateway without authentication,
// which serves its own machine alone. Errors say what to answer: those of
// package gate, [ErrUnavailable] and [ScopeError]; [Resource.Refuse] makes the
// HTTP status and the challenge of each.
//
// [Resource] is the OAuth 2.1 side of it: the protected resource metadata of
// RFC 9728 and the challenges of RFC 6750. [Scopes] tells which scopes a
// capability asks for. What an identity may do is decided by package gate; a
// scope never widens it.
//
// The package sends requests to authorization servers only: for their keys,
// their metadata, and about tokens. Those requests carry nothing of the
// request that caused them but the token under introspection.
package auth

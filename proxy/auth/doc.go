// Package auth authenticates the callers of HTTP requests.
//
// An authenticator returns an identity or an error; a request is never served without
// an identity. Every zero value refuses.
//
//	Authorization header ── API key? ──> [Keys]
//	                     ── signed token of a known issuer? ──> [JWT]
//	                     ── anything else ──> [Introspection]
//	client certificate, without a header ──> [Certificates]
//
// [Chain] combines them as in this picture. [Loopback] is the gateway without
// authentication, which serves only its own machine. Errors determine the response:
// those of package gate, [ErrUnavailable] and [ScopeError]. [Resource.Refuse] turns
// them into an HTTP status and a challenge.
//
// [Resource] is the OAuth 2.1 protected resource: the metadata of RFC 9728 and the
// challenges of RFC 6750. [Scopes] knows which scopes a capability requires. Package
// gate decides what an identity may do; scopes only narrow that. [Role] is who may use the
// admin API and the console.
//
// The package sends requests only to authorization servers: for their keys, their
// metadata, and about tokens. Of a caller's request, they carry nothing but the token
// under introspection.
package auth

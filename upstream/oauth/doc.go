// Package oauth is the client side of OAuth 2.1 as MCP uses it: where a server's
// authorization server is, what that one can do, how a client is registered
// there, and how tokens are had. It holds no state and knows no principals: what
// it is given and returns is kept elsewhere.
//
// It implements 2026-07-28 basic/authorization, which is 2025-11-25
// basic/authorization with checks of the issuer, and the extensions for client
// credentials, enterprise-managed authorization, workload identity federation and
// tokens that are bound to a key (RFC 9449).
package oauth

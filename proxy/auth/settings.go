package auth

import (
	"time"

	"github.com/toolgate/toolgate/config/secret"
)

// Settings say who callers are. Each kind that is configured lets its callers in;
// a request is judged by what it brings.
type Settings struct {
	// Static API keys. Default: none.
	Keys []Key `config:"keys"`
	// Accepts signed tokens (JWT) of one issuer, or of a list of issuers. Default: none.
	JWT []Issuer `config:"jwt" list:"one"`
	// Verifies opaque tokens by asking their issuer (RFC 7662). Default: off.
	Introspection IntrospectionSettings `config:"introspection"`
	// How a client certificate identifies a caller (mutual TLS). listen.tls.client_ca says which certificates are
	// accepted. Default: by its common name.
	MTLS CertificateSettings `config:"mtls"`
	// OAuth scopes that calls require, in addition to the gate's decision. Default: none.
	Scopes ScopeSettings `config:"scopes"`
	// Callers who may use the admin API with their own credentials. Default: only the holder of the admin token.
	Admins Role `config:"admins"`
	// Callers who may see everything in the console but what calls carry. Default: nobody.
	Auditors Role `config:"auditors"`
	// Callers who may see in the console the state of the gateway, its catalog and its figures. Default: nobody.
	Viewers Role `config:"viewers"`
}

// Key is a static API key, by the hash of its text, and whom it stands for.
type Key struct {
	// Name of the key in logs. Required.
	ID string `config:"id" required:"true" format:"id"`
	// SHA-256 of the key, 64 hex digits. Required.
	SHA256 string `config:"sha256" required:"true" format:"sha256"`
	// Caller that the key identifies. Required.
	Subject string `config:"subject" required:"true"`
	// Tenant of the caller. Default: default.
	Tenant string `config:"tenant" default:"default"`
	// Role in which the caller acts. Default: none.
	Persona string `config:"persona"`
	// Groups of the caller. Default: none.
	Groups []string `config:"groups"`
	// OAuth scopes of the caller. Default: none.
	Scopes []string `config:"scopes" format:"scope"`
	// Quota plan of the caller, in addition to the tenant's. Default: only the tenant's plan.
	Plan string `config:"plan"`
}

// Issuer is an authorization server whose signed tokens are accepted. It is the Issuer
// of the principals, so that a subject of two issuers is two principals. Its keys are
// found through its metadata by RFC 8414 and OpenID Connect Discovery.
type Issuer struct {
	// Issuer of the tokens, exactly as their iss claim says: https, or http on this machine. Required.
	Issuer string `config:"issuer" required:"true" format:"authority"`
	// Audience of which tokens must name one. Default: the URL of the endpoint that is called, below listen.public_url.
	Audience []string `config:"audience" list:"one"`
	// URL of the issuer's keys. Default: found through the issuer's metadata.
	JWKS string `config:"jwks" format:"authority"`
	// Signature algorithms to accept. Default: all supported ones, RS256 to EdDSA; none is symmetric.
	Algorithms []string `config:"algorithms" enum:"RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|ES512|EdDSA|Ed25519"`
	// Which claims toolgate reads. Default: sub, and scope or scp.
	Claims Claims `config:"claims"`
	// Tolerated difference between the issuer's clock and toolgate's. Default: 1m.
	Leeway time.Duration `config:"leeway" default:"1m" min:"1s" max:"5m"`
	// Shortest time between two fetches of the issuer's keys, however many tokens name unknown keys. Default: 30s.
	Cooldown time.Duration `config:"cooldown" default:"30s" min:"1s" max:"10m"`
	// Lets people sign in to the console at this issuer (OpenID Connect). Default: off.
	Console ConsoleClient `config:"console"`
}

// ConsoleClient is the console as an issuer knows it.
type ConsoleClient struct {
	// Client ID of the console at the issuer. Default: none; nobody signs in to the console there.
	ClientID string `config:"client_id"`
	// Client secret of the console at the issuer. Default: none; the console is a public client.
	ClientSecret secret.Text `config:"client_secret"`
	// Scopes to ask for in addition to openid, for example one that brings the groups. Default: none.
	Scopes []string `config:"scopes" format:"scope"`
}

// IntrospectionSettings ask an issuer about each token that is not signed by one of
// auth.jwt (RFC 7662). The secret is sent to the endpoint and appears nowhere else.
type IntrospectionSettings struct {
	// URL of the introspection endpoint: https, or http on this machine. Default: off.
	Endpoint string `config:"endpoint" format:"authority"`
	// Client ID of toolgate at the endpoint. Required with endpoint.
	ClientID string `config:"client_id"`
	// Client secret of toolgate at the endpoint. Required with endpoint.
	ClientSecret secret.Text `config:"client_secret"`
	// Issuer of the tokens; it is part of the callers' identity. Required with endpoint.
	Issuer string `config:"issuer" format:"authority"`
	// Audience of which the answer must name one. Default: the URL of the endpoint that is called, below
	// listen.public_url.
	Audience []string `config:"audience" list:"one"`
	// Client IDs whose tokens are accepted; [] is an error. Default: all.
	Clients []string `config:"clients"`
	// Which members of the answer toolgate reads. Default: sub, and scope or scp.
	Claims Claims `config:"claims"`
}

// CertificateSettings say how a client certificate makes a caller. An empty field reads
// nothing. A certificate must have exactly one subject, and one tenant, persona and
// plan at most.
type CertificateSettings struct {
	// Field with the caller's subject; a certificate must have it exactly once. Default: cn.
	Subject Field `config:"subject" enum:"uri|dns|email|cn"`
	// Field with the tenant. Default: none; every caller belongs to the tenant default.
	Tenant Field `config:"tenant" enum:"uri|dns|email|cn|o|ou"`
	// Field with the role in which the caller acts. Default: none.
	Persona Field `config:"persona" enum:"uri|dns|email|cn|o|ou"`
	// Field with the groups. Default: none.
	Groups Field `config:"groups" enum:"uri|dns|email|cn|o|ou"`
	// Field with the quota plan. Default: none.
	Plan Field `config:"plan" enum:"uri|dns|email|cn|o|ou"`
	// Scopes of every caller with a certificate. Default: none.
	Scopes []string `config:"scopes" format:"scope"`
	// Refuses every connection without a certificate, including health checks and metadata. Default: false.
	Required bool `config:"required"`
	// Refuses a token whose subject or tenant differs from the certificate of its connection. Default: false; the token
	// alone decides.
	Agree bool `config:"agree"`
}

// ScopeSettings are what tokens need to use something. They narrow what the gate
// allows and widen nothing.
type ScopeSettings struct {
	// Required scopes by exposed name; all matching rules apply together. Default: none.
	Required []ScopeRule `config:"required"`
	// Scopes that a scope includes: { admin: [write, read] }. Default: none.
	Hierarchy map[string][]string `config:"hierarchy" format:"scope"`
	// Scopes that a client without a token is told to request first. Default: none.
	Challenge []string `config:"challenge" format:"scope"`
	// Scopes in the published metadata. Default: those of challenge.
	Supported []string `config:"supported" format:"scope"`
}

// ScopeRule asks for scopes to call what it matches.
type ScopeRule struct {
	// Glob of exposed names and URIs: * matches any text, ? any one byte. Required.
	Match string `config:"match" required:"true"`
	// Scopes, all of which the call requires. Required.
	Scopes []string `config:"scopes" required:"true" format:"scope" list:"one"`
}

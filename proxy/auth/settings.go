package auth

import (
	"time"

	"github.com/toolgate/toolgate/config/secret"
)

// Settings say who callers are. Each kind that is configured lets its callers in;
// a request is judged by what it brings.
type Settings struct {
	// Keys are static API keys. Absent: none.
	Keys []Key `config:"keys"`
	// JWT accepts signed tokens: one issuer, or a list of them. Absent: none.
	JWT []Issuer `config:"jwt" list:"one"`
	// Introspection asks the issuer about opaque tokens. Absent: nobody is asked.
	Introspection IntrospectionSettings `config:"introspection"`
	// MTLS says how a client certificate makes a caller; listen.tls.client_ca says which count.
	// Absent: by its common name.
	MTLS CertificateSettings `config:"mtls"`
	// Scopes are what callers need besides being allowed. Absent: none are needed.
	Scopes ScopeSettings `config:"scopes"`
}

// Key is a static API key, by the hash of its text, and whom it stands for.
type Key struct {
	// ID names the key in logs. Required.
	ID string `config:"id" required:"true" format:"id"`
	// SHA256 is the hash of the key in hex, 64 digits. Required.
	SHA256 string `config:"sha256" required:"true" format:"sha256"`
	// Subject is who calls with it. Required.
	Subject string `config:"subject" required:"true"`
	// Tenant is the caller's tenant. Absent: default.
	Tenant string `config:"tenant" default:"default"`
	// Persona is the role the caller acts in. Absent: none.
	Persona string `config:"persona"`
	// Groups the caller belongs to. Absent: none.
	Groups []string `config:"groups"`
	// Scopes the caller has. Absent: none.
	Scopes []string `config:"scopes" format:"scope"`
	// Plan limits the caller, besides what limits the tenant. Absent: the tenant's alone.
	Plan string `config:"plan"`
}

// Issuer is an authorization server whose signed tokens are accepted. It is the Issuer
// of the principals, so that a subject of two issuers is two principals. Its keys are
// found through its metadata by RFC 8414 and OpenID Connect Discovery.
type Issuer struct {
	// Issuer that signs, as tokens name it, byte for byte: https, or http on this machine. Required.
	Issuer string `config:"issuer" required:"true" format:"authority"`
	// Audience that tokens must name, or several of which they name one. Absent: the URL of the
	// endpoint that is called, below listen.public_url.
	Audience []string `config:"audience" list:"one"`
	// JWKS is where the issuer's keys are. Absent: found through the issuer's metadata.
	JWKS string `config:"jwks" format:"authority"`
	// Algorithms that tokens may be signed with. Absent: all that are supported, RS256 to EdDSA; none
	// is symmetric.
	Algorithms []string `config:"algorithms" enum:"RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|ES512|EdDSA|Ed25519"`
	// Claims are the names of the claims to read. Absent: sub, and scope or scp.
	Claims Claims `config:"claims"`
	// Leeway is how far the issuer's clock may be from ours. Absent: 1m.
	Leeway time.Duration `config:"leeway" default:"1m" min:"1s" max:"5m"`
	// Cooldown is the shortest time between two fetches of the issuer's keys, however many tokens
	// name unknown ones. Absent: 30s.
	Cooldown time.Duration `config:"cooldown" default:"30s" min:"1s" max:"10m"`
}

// IntrospectionSettings ask an issuer about each token that is not signed by one of
// auth.jwt (RFC 7662). The secret is sent to the endpoint and appears nowhere else.
type IntrospectionSettings struct {
	// Endpoint is where to ask: https, or http on this machine. Absent: nobody is asked.
	Endpoint string `config:"endpoint" format:"authority"`
	// ClientID is who toolgate is there. Absent: refused where an endpoint is set.
	ClientID string `config:"client_id"`
	// ClientSecret authenticates it. Absent: refused where an endpoint is set.
	ClientSecret secret.Text `config:"client_secret"`
	// Issuer of the tokens, a part of who their subjects are. Absent: refused where an endpoint is set.
	Issuer string `config:"issuer" format:"authority"`
	// Audience that the answer must name, or several of which it names one. Absent: the URL of the
	// endpoint that is called, below listen.public_url.
	Audience []string `config:"audience" list:"one"`
	// Clients are the client ids whose tokens count; [] is an error. Absent: all.
	Clients []string `config:"clients"`
	// Claims are the members of the answer to read. Absent: sub, and scope or scp.
	Claims Claims `config:"claims"`
}

// CertificateSettings say how a client certificate makes a caller. An empty field reads
// nothing. A certificate must have exactly one subject, and one tenant, persona and
// plan at most.
type CertificateSettings struct {
	// Subject is the field with who calls; a certificate must have exactly one. Absent: cn.
	Subject Field `config:"subject" enum:"uri|dns|email|cn"`
	// Tenant is the field with the tenant. Absent: none; everyone is of the tenant default.
	Tenant Field `config:"tenant" enum:"uri|dns|email|cn|o|ou"`
	// Persona is the field with the role the caller acts in. Absent: none.
	Persona Field `config:"persona" enum:"uri|dns|email|cn|o|ou"`
	// Groups is the field with the groups. Absent: none.
	Groups Field `config:"groups" enum:"uri|dns|email|cn|o|ou"`
	// Plan is the field with the plan. Absent: none.
	Plan Field `config:"plan" enum:"uri|dns|email|cn|o|ou"`
	// Scopes that everyone with a certificate has. Absent: none.
	Scopes []string `config:"scopes" format:"scope"`
	// Required refuses every connection without a certificate, probes and metadata included. Absent: no.
	Required bool `config:"required"`
	// Agree refuses a token of another subject or tenant than the certificate of its connection.
	// Absent: no; the token decides alone.
	Agree bool `config:"agree"`
}

// ScopeSettings are what tokens need to use something. They narrow what the gate
// allows and widen nothing.
type ScopeSettings struct {
	// Required are the scopes by what is called; all rules that match add up. Absent: none.
	Required []ScopeRule `config:"required"`
	// Hierarchy is which scopes a scope implies: { admin: [write, read] }. Absent: none.
	Hierarchy map[string][]string `config:"hierarchy" format:"scope"`
	// Challenge are the scopes that a client without a token is told to begin with. Absent: none.
	Challenge []string `config:"challenge" format:"scope"`
	// Supported are the scopes of the published metadata. Absent: those of challenge.
	Supported []string `config:"supported" format:"scope"`
}

// ScopeRule asks for scopes to call what it matches.
type ScopeRule struct {
	// Match is a glob of exposed names and URIs: * is any text, ? any one byte. Required.
	Match string `config:"match" required:"true"`
	// Scopes are all needed. Required.
	Scopes []string `config:"scopes" required:"true" format:"scope" list:"one"`
}

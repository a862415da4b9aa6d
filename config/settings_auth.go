package config

import "encoding/json"

// Auth says who callers are.
type Auth struct {
	// Keys are static API keys. Absent: none.
	Keys []APIKey `config:"keys"`
	// JWT accepts signed tokens. Absent: none.
	JWT JWT `config:"jwt"`
	// Introspection asks the issuer about opaque tokens. Absent: nobody is asked.
	Introspection map[string]json.RawMessage `config:"introspection"`
	// MTLS accepts client certificates. Absent: none.
	MTLS map[string]json.RawMessage `config:"mtls"`
}

// APIKey is a static key and whom it stands for.
type APIKey struct {
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
	// Plan limits the caller. Absent: the tenant's.
	Plan string `config:"plan"`
}

// JWT accepts signed tokens of one issuer.
type JWT struct {
	// Issuer that signs. Required where tokens are used.
	Issuer string `config:"issuer"`
	// Audience the tokens must name. Required where tokens are used.
	Audience string `config:"audience"`
	// JWKS is where the issuer's keys are. Absent: found through the issuer.
	JWKS string `config:"jwks"`
	// Claims are the names of the claims to read. Absent: sub, and none else.
	Claims map[string]string `config:"claims"`
}

// Tenant is one tenant's settings.
type Tenant struct {
	// Plan limits the tenant. Absent: none.
	Plan string `config:"plan"`
	// Zone is the time zone its months and days are counted in. Absent: UTC.
	Zone string `config:"zone"`
}

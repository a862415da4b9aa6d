package config

import "github.com/toolgate/toolgate/proxy/auth"

// Auth says who callers are. Each kind that is configured lets its callers in;
// a request is judged by what it brings.
type Auth struct {
	auth.Settings

	// Admins are who may use the admin API with a credential of their own. Absent: the holder of the admin token alone.
	Admins []Admin `config:"admins"`
}

// Admin is who has the admin role: one caller, or everyone of a group. A group
// is one of a tenant and of an issuer, because whoever vouches for callers says
// what groups they are in.
type Admin struct {
	// Subject is one caller. Absent: see group.
	Subject string `config:"subject"`
	// Group is everyone in it. Absent: see subject.
	Group string `config:"group"`
	// Tenant that they are of. Absent: default.
	Tenant string `config:"tenant" default:"default"`
	// Issuer of their tokens, one of auth.jwt or that of auth.introspection. Absent: they have API keys of this file.
	Issuer string `config:"issuer" format:"authority"`
}

package config

import "github.com/toolgate/toolgate/proxy/auth"

// Auth says who callers are. Each kind that is configured lets its callers in;
// a request is judged by what it brings.
type Auth struct {
	auth.Settings

	// Callers who may use the admin API with their own credentials. Default: only the holder of the admin token.
	Admins []Admin `config:"admins"`
	// Callers who may see everything in the console but what calls carry. Default: nobody.
	Auditors []Admin `config:"auditors"`
	// Callers who may see in the console the state of the gateway, its catalog and its figures. Default: nobody.
	Viewers []Admin `config:"viewers"`
}

// Admin is who has a role: one caller, or everyone of a group. A group
// is one of a tenant and of an issuer, because whoever vouches for callers says
// what groups they are in.
type Admin struct {
	// A single caller. Required unless group is set.
	Subject string `config:"subject"`
	// All callers in this group. Required unless subject is set.
	Group string `config:"group"`
	// Tenant of these callers. Default: default.
	Tenant string `config:"tenant" default:"default"`
	// Issuer of their tokens: one of auth.jwt, or that of auth.introspection. Default: none; they have API keys from
	// this file.
	Issuer string `config:"issuer" format:"authority"`
}

package auth

import (
	"cmp"
	"slices"

	"github.com/toolgate/toolgate/gate"
)

// RoleHolder is who has a role: one caller, or everyone of a group. A group
// is one of a tenant and of an issuer, because whoever vouches for callers says
// what groups they are in.
type RoleHolder struct {
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

// Role is the holders of a role, such as that of the administrators. The zero value is
// nobody's.
type Role []RoleHolder

// Has tells whether somebody has the role.
func (r Role) Has(id *gate.Identity) bool {
	return slices.ContainsFunc(r, func(h RoleHolder) bool {
		switch {
		case id.Issuer != cmp.Or(h.Issuer, KeyIssuer), id.Tenant != cmp.Or(h.Tenant, gate.DefaultTenant):
			return false
		case h.Subject != "":
			return h.Subject == id.Subject
		}
		return h.Group != "" && slices.Contains(id.Groups, h.Group)
	})
}

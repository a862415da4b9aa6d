package auth_test

import (
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/proxy/auth"
)

// A role is one of an issuer and a tenant.
func TestRole(t *testing.T) {
	t.Parallel()
	admins := auth.Role{
		{Group: "ops"}, {Subject: "root", Tenant: "acme"}, {Group: "sre", Issuer: "https://login.example"}, {}, // the last is nobody
	}
	for _, tt := range []struct {
		issuer, tenant, subject string
		groups                  []string
		want                    bool
	}{
		{auth.KeyIssuer, "default", "x", []string{"dev", "ops"}, true},
		{auth.KeyIssuer, "default", "x", []string{"dev"}, false},
		{auth.KeyIssuer, "default", "x", []string{""}, false},
		{auth.KeyIssuer, "acme", "x", []string{"ops"}, false},
		{auth.KeyIssuer, "acme", "root", nil, true},
		{auth.KeyIssuer, "default", "root", nil, false},
		{auth.KeyIssuer, "default", "", nil, false},
		{"https://login.example", "default", "x", []string{"sre"}, true},
		{"https://login.example", "default", "x", []string{"ops"}, false},
		{"https://evil.example", "default", "x", []string{"sre", "ops"}, false},
		{auth.CertificateIssuer, "default", "x", []string{"ops"}, false},
	} {
		id := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: tt.issuer, Tenant: tt.tenant, Subject: tt.subject}, Groups: tt.groups})
		if got := admins.Has(id); got != tt.want {
			t.Errorf("%+v: %t", tt, got)
		}
	}
}

package gate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/toolgate/toolgate/gate"
)

type fixed struct {
	gate.Decision
	err   error
	asked *int
}

func (f fixed) Part() gate.Part { return gate.Part{Name: "fixed", Check: f.Check} }

func (f fixed) Check(context.Context, *gate.Request) (gate.Decision, error) {
	if f.asked != nil {
		*f.asked++
	}
	return f.Decision, f.err
}

func request() *gate.Request {
	return &gate.Request{Action: gate.Call, Identity: gate.NewIdentity(gate.Identity{Principal: gate.Local})}
}

func TestChain(t *testing.T) {
	allow := fixed{Decision: gate.Decision{Effect: gate.Allow}}
	deny := fixed{Decision: gate.Decision{Effect: gate.Deny, Reason: "no"}}
	abstain := fixed{Decision: gate.Decision{Effect: gate.Abstain}}
	broken := fixed{Decision: gate.Decision{Effect: gate.Allow}, err: errors.New("down")}
	unknown := fixed{Decision: gate.Decision{Effect: 77}}
	tests := []struct {
		name  string
		chain *gate.Chain
		want  gate.Effect
	}{
		{"nil chain", nil, gate.Deny},
		{"zero chain", &gate.Chain{}, gate.Deny},
		{"only abstain", gate.NewChain(abstain, abstain), gate.Deny},
		{"allow", gate.NewChain(abstain, allow, abstain), gate.Allow},
		{"deny after allow", gate.NewChain(allow, deny), gate.Deny},
		{"deny before allow", gate.NewChain(deny, allow), gate.Deny},
		{"error", gate.NewChain(allow, broken), gate.Deny},
		{"unknown effect", gate.NewChain(allow, unknown), gate.Deny},
		{"open", gate.NewChain(gate.Open{}), gate.Allow},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.chain.Decide(t.Context(), request()).Effect; got != tt.want {
				t.Errorf("effect %v, want %v", got, tt.want)
			}
		})
	}
}

func TestChainWithoutIdentityDenies(t *testing.T) {
	r := request()
	r.Identity = nil
	if got := gate.NewChain(gate.Open{}).Decide(t.Context(), r).Effect; got != gate.Deny {
		t.Errorf("effect %v, want deny", got)
	}
}

func TestChainEndsAtFirstDeny(t *testing.T) {
	asked := 0
	later := fixed{Decision: gate.Decision{Effect: gate.Allow}, asked: &asked}
	d := gate.NewChain(fixed{Decision: gate.Decision{Reason: "closed"}}, later).Decide(t.Context(), request())
	if asked != 0 || d.Phase != "fixed" || d.Reason != "closed" {
		t.Errorf("decision %+v after %d further questions", d, asked)
	}
}

func TestPrincipalKeyIsInjective(t *testing.T) {
	seen := map[string]gate.Principal{}
	parts := []string{"", "a", "1:a", "a1:", ":", "ab", "2:ab0:"}
	for _, i := range parts {
		for _, te := range parts {
			for _, s := range parts {
				p := gate.Principal{Issuer: i, Tenant: te, Subject: s}
				if other, ok := seen[p.Key()]; ok {
					t.Fatalf("%+v and %+v share the key %q", p, other, p.Key())
				}
				seen[p.Key()] = p
			}
		}
	}
}

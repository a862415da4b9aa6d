package gate_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate"
)

// obliging allows with obligations.
type obliging string

func (o obliging) Part() gate.Part { return gate.Part{Name: "obliging", Check: o.Check} }

func (o obliging) Check(context.Context, *gate.Request) (gate.Decision, error) {
	d := gate.Decision{Effect: gate.Allow}
	if o != "" {
		d.Obligations = []byte(o)
	}
	return d, nil
}

func TestObligations(t *testing.T) {
	policy := "the policy asks for an approval"
	for name, tc := range map[string]struct {
		obligations []string
		want        []gate.Demand
		err         string
	}{
		"none":                 {obligations: []string{""}},
		"not demanded":         {obligations: []string{`{"approval":false}`}},
		"plain":                {obligations: []string{`{"approval":true}`}, want: []gate.Demand{{Reason: policy}}},
		"by a group":           {obligations: []string{`{"approval":{"by":["security"],"reason":"it deletes"}}`}, want: []gate.Demand{{Reason: "it deletes", By: []string{"security"}}}},
		"by nobody":            {obligations: []string{`{"approval":{"by":[]}}`}, want: []gate.Demand{{Reason: policy, By: []string{}}}},
		"a later allow":        {obligations: []string{`{"approval":true}`, ""}, want: []gate.Demand{{Reason: policy}}},
		"two phases":           {obligations: []string{`{"approval":true}`, `{"approval":{"by":["a"]}}`}, want: []gate.Demand{{Reason: policy}, {Reason: policy, By: []string{"a"}}}},
		"unknown":              {obligations: []string{`{"mfa":true}`}, err: `obligation "mfa"`},
		"unknown beside known": {obligations: []string{`{"approval":true,"log":1}`}, err: `obligation "log"`},
		"unknown earlier":      {obligations: []string{`{"mfa":true}`, ""}, err: `obligation "mfa"`},
		"not an object":        {obligations: []string{`["approval"]`}, err: "not an object"},
		"a number":             {obligations: []string{`{"approval":1}`}, err: "neither true, false nor an object"},
		"unknown member":       {obligations: []string{`{"approval":{"who":"a"}}`}, err: `"who" is not known`},
		"by text":              {obligations: []string{`{"approval":{"by":"security"}}`}, err: "not a list of groups"},
		"by empty":             {obligations: []string{`{"approval":{"by":[""]}}`}, err: "list of at most"},
		"by number":            {obligations: []string{`{"approval":{"by":[1]}}`}, err: "list of at most"},
		"by many":              {obligations: []string{`{"approval":{"by":["a"` + strings.Repeat(`,"a"`, 16) + `]}}`}, err: "list of at most"},
		"reason of spaces":     {obligations: []string{`{"approval":{"reason":" "}}`}, err: "reason is not text"},
	} {
		t.Run(name, func(t *testing.T) {
			var phases []gate.Phase
			for _, o := range tc.obligations {
				phases = append(phases, obliging(o))
			}
			request := &gate.Request{Action: gate.Call, Identity: gate.NewIdentity(gate.Identity{Principal: gate.Local})}
			d := gate.NewChain(phases...).Decide(t.Context(), request)
			if tc.err != "" {
				if d.Effect != gate.Deny || d.Err == nil || !strings.Contains(d.Err.Error(), tc.err) || d.Reason != "policy_error" {
					t.Errorf("%v, %v, %v; want a policy error with %q", d.Effect, d.Reason, d.Err, tc.err)
				}
				return
			}
			if d.Effect != gate.Allow || d.Err != nil {
				t.Fatalf("%v, %v", d.Effect, d.Err)
			}
			if diff := cmp.Diff(tc.want, d.Demands); diff != "" {
				t.Errorf("demands (-want +got):\n%s", diff)
			}
			if all := gate.NewChain(phases...).DecideAll(t.Context(), []gate.Request{*request}); !cmp.Equal(all[0].Demands, d.Demands) {
				t.Errorf("DecideAll demands %v", all[0].Demands)
			}
		})
	}
}

func TestApprovalMay(t *testing.T) {
	a := gate.Approval{By: [][]string{{"security", gate.ByOperator}, {"owners"}}}
	for _, tc := range []struct {
		is   []string
		want bool
	}{
		{nil, false},
		{[]string{"security"}, false},
		{[]string{"owners"}, false},
		{[]string{""}, false},
		{[]string{"owners", "security"}, true},
		{[]string{gate.ByOperator, "owners"}, true},
	} {
		if got := a.May(tc.is...); got != tc.want {
			t.Errorf("%v: %v", tc.is, got)
		}
	}
	for name, nobody := range map[string]gate.Approval{"zero": {}, "empty": {By: [][]string{{}}}, "one empty": {By: [][]string{{"a"}, {}}}} {
		if nobody.May("a", "", gate.ByOperator, gate.ByRequester) {
			t.Errorf("%s: somebody may", name)
		}
	}
}

package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/admin"
)

// Phases that say nothing have one row together, unless each is wanted, one of them asks
// for something, or the call is not allowed.
func TestWhyFoldsSilentPhases(t *testing.T) {
	t.Parallel()
	silent := []admin.WhyStep{
		{Phase: "open", Effect: "allow"},
		{Phase: "registry", Effect: "abstain"},
		{Phase: "opa", Effect: "abstain", Question: "data.a"},
		{Phase: "breaker", Effect: "abstain"},
		{Phase: "rate", Effect: "abstain"},
		{Phase: "interceptors", Effect: "abstain", Reason: "they are asked before the call"},
	}
	for _, tt := range []struct {
		name, effect string
		each         bool
		want         []string
	}{
		{"allowed", "allow", false, []string{"open", "registry", "opa", "2 others", "interceptors", "-"}},
		{"each is wanted", "allow", true, []string{"open", "registry", "opa", "breaker", "rate", "interceptors", "-"}},
		{"denied", "deny", false, []string{"open", "registry", "opa", "breaker", "rate", "interceptors", "-"}},
	} {
		got := []string{}
		for _, row := range whyTable(&admin.Why{Call: admin.WhyVerdict{Effect: tt.effect, Steps: silent}}, tt.each).Rows {
			if row[0] == "call" {
				got = append(got, row[1])
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

package telemetry_test

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/telemetry"
)

func TestBudgetCounters(t *testing.T) {
	m := telemetry.New("v1")
	m.Budget("team", "granted", 0)
	m.Budget("team", "granted", 80)
	m.Budget("team", "refused", 0)
	text := scrape(t, m)
	for _, want := range []string{
		`toolgate_budget_charges_total{budget="team",outcome="granted"} 2`,
		`toolgate_budget_charges_total{budget="team",outcome="refused"} 1`,
		`toolgate_budget_warnings_total{budget="team",percent="80"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %s", want)
		}
	}
	if strings.Contains(text, `percent="0"`) {
		t.Error("no warning is counted as one")
	}
}

package telemetry_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/telemetry"
)

func TestBudgetCounters(t *testing.T) {
	m := telemetry.New("v1")
	m.Budget(&telemetry.Charge{Budget: "team", Outcome: "granted"})
	m.Budget(&telemetry.Charge{Budget: "team", Outcome: "granted", Warned: 80})
	m.Budget(&telemetry.Charge{Budget: "team", Outcome: "refused"})
	text := scrape(t, m)
	contains(t, text,
		`toolgate_budget_charges_total{budget="team",outcome="granted"} 2`,
		`toolgate_budget_charges_total{budget="team",outcome="refused"} 1`,
		`toolgate_budget_warnings_total{budget="team",percent="80"} 1`,
	)
	if strings.Contains(text, `percent="0"`) {
		t.Error("no warning is counted as one")
	}
}

// What is left is that of whoever has the least, until their window ends, however
// many owners there are.
func TestBudgetRemaining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.New("v1")
		charge := func(owner string, left float64, until time.Duration) {
			m.Budget(&telemetry.Charge{Budget: "team", Outcome: "granted", Limited: true, Measure: "calls/day", Owner: owner, Left: left, Until: time.Now().Add(until)})
		}
		want := func(value string) {
			t.Helper()
			contains(t, scrape(t, m), `toolgate_budget_remaining_ratio{budget="team"} `+value)
		}
		for i := range 10_000 { // the later, the less
			charge(fmt.Sprint(i), 1-float64(i)/20_000, time.Hour)
		}
		charge("poor", 0.25, time.Hour)
		want("0.25")
		charge("spent", -0.5, time.Minute)
		want("0")
		time.Sleep(2 * time.Minute)
		want("0.25")
		charge("poor", 0.75, time.Hour) // it was refunded
		want("0.50005")
		time.Sleep(2 * time.Hour)
		want("1")
	})
}

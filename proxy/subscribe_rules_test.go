package proxy

import (
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// A subscription passes the same checks as a read after the gate: the mode and the
// rules, rates and budgets, in both eras.
func TestSubscriptionsPassWhatReadsDo(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(c *Config)
		kind   string
		after  int // number of calls that pass
	}{
		"the mode":    {func(c *Config) { c.Arguments = locked{} }, "governance", 0},
		"an approval": {func(c *Config) { c.Arguments = asker{} }, "approval_needed", 0},
		"a rate": {func(c *Config) {
			c.Rates = rate.NewMeter(rate.NewLocal(0), nil, nil).Limiter([]rate.Rule{{Name: "r", Rate: rate.Rate{Limit: 2, Window: 24 * time.Hour}}})
		}, refusal.KindRate, 2},
		"a budget": {func(c *Config) {
			c.Limiter = limited(t, new(budgettest.Memory), budget.Rule{Name: "none", Per: budget.PerTenant, Unit: budget.Bytes, Window: budget.Day})
		}, "budget", 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///r","name":"r"}`)
			r := newRig(t, mounted(b), func(_ *Options, c *Config) { tt.change(c) }).run()
			for i := range tt.after + 1 {
				w := r.legacy(r.open(), "1", "resources/subscribe", `{"uri":"s+file:///r"}`)
				if refused := strings.Contains(w.text(), `"kind":"`+tt.kind+`"`); refused != (i == tt.after) {
					t.Errorf("subscription %d: %s", i, w.text())
				}
			}
			asked := len(b.seen(""))
			w, leave := r.begin(modernRequest(modernBody("1", "subscriptions/listen", `"notifications":{"resourceSubscriptions":["s+file:///r"]}`, "")))
			testwait.Until(t, patience, "the stream is acknowledged", func() bool { return strings.Contains(w.text(), "acknowledged") })
			leave()
			if !strings.Contains(w.text(), `"resourceSubscriptions":[]`) || len(b.seen("")) != asked || asked != min(tt.after, 1) {
				t.Errorf("listen, with %d requests at the server and %d before: %s", len(b.seen("")), asked, w.text())
			}
		})
	}
}

// A caller who may not read a resource in the current mode gets no updates of it
// either.
func TestUpdatesPassTheMode(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///r","name":"r"}`)
	r := newRig(t, mounted(b)).run()
	session := r.open()
	if w := r.legacy(session, "1", "resources/subscribe", `{"uri":"s+file:///r"}`); !strings.Contains(w.text(), `"result":{}`) {
		t.Fatal(w.text())
	}
	heard := func() (n int) {
		r.watches.mu.Lock()
		defer r.watches.mu.Unlock()
		for _, watchers := range r.watches.of {
			for w := range watchers {
				if r.notifications.mayReceive(w, "", "s+file:///r") {
					n++
				}
			}
		}
		return n
	}
	if n := heard(); n != 1 {
		t.Errorf("%d hear of it before", n)
	}
	r.lock()
	if n := heard(); n != 0 {
		t.Errorf("%d hear of it while nothing may be read", n)
	}
}

//go:build !windows

package daemon_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
)

// Many runs at once never use more than the budget of their agent has, and what is charged
// in the end is what the endpoint says.
func TestAgentBudgetIsExact(t *testing.T) {
	t.Parallel()
	const (
		runs  = 50
		limit = 6000
		each  = 110 // tokens that one run uses
	)
	h := newHome(t)
	url := endpoint(t, `{"turns":[{"text":"done","usage":{"input":100,"output":10,"known":true}}],"repeat":true}`)
	h.write(t, servers{}, withAgents(map[string]map[string]any{"worker": {
		"endpoint": url, "max_tokens": 50, "budget": map[string]any{"tokens": limit, "window": "day"},
	}}, nil))
	r := h.newRunning(t)
	r.settle(t)
	var completed, refused atomic.Int64
	var all sync.WaitGroup
	for range runs {
		all.Go(func() {
			got := string(r.structured(t, "alice", "agent__worker", `{"task":"work"}`))
			switch {
			case strings.Contains(got, `"status":"completed"`):
				completed.Add(1)
			case strings.Contains(got, `"limit":"budget"`):
				refused.Add(1)
			default:
				t.Errorf("ended otherwise: %s", got)
			}
		})
	}
	all.Wait()
	used, err := r.Control.BudgetUse(t.Context(), admin.BudgetQuery{})
	if err != nil || len(used) != 1 || used[0].Used != completed.Load()*each || used[0].Used > limit {
		t.Errorf("%d completed, %d refused: %+v, %v", completed.Load(), refused.Load(), used, err)
	}
	if completed.Load() == 0 {
		t.Error("no run has completed")
	}
}

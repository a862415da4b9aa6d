//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// TestConsolePaint prints when Chromium has painted each view first. What it prints is a
// figure: how long something takes says more of the machine than of the console.
func TestConsolePaint(t *testing.T) {
	t.Parallel()
	need(t, browser())
	d := newDesk()
	w := consoleGateway(t, d, nil)
	ids := w.busy(t, d)
	views := []consoleView{
		{Name: "now", Path: "/now"},
		{Name: "calls", Path: "/calls"},
		{Name: "call", Path: "/calls/" + ids.done},
		{Name: "catalog", Path: "/catalog"},
		{Name: "try", Path: "/try"},
		{Name: "approvals", Path: "/approvals"},
		{Name: "budgets", Path: "/budgets"},
		{Name: "access", Path: "/access?name=desk__send_letter&as=ann"},
		{Name: "runs", Path: "/runs"},
		{Name: "jobs", Path: "/jobs"},
		{Name: "searches", Path: "/searches"},
		{Name: "replicas", Path: "/replicas"},
	}
	const times = 7
	b := w.browse(t, "console_speed.mjs", object{"views": views, "times": times})
	var paints map[string][]float64
	if err := json.Unmarshal(b.Facts["paints"], &paints); err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		all := paints[v.Name]
		if len(all) != times {
			t.Errorf("%s was painted %d times", v.Name, len(all))
			continue
		}
		slices.Sort(all)
		fmt.Printf("first paint of %-9s median %.0f ms, worst of %d %.0f ms\n", v.Name, all[len(all)/2], times, all[len(all)-1])
	}
}

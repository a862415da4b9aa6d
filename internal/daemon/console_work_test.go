//go:build !windows

package daemon_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
)

// Somebody sees their own runs with what was asked and answered, an administrator all of them,
// and an auditor all of them without that.
func TestConsoleRuns(t *testing.T) {
	t.Parallel()
	url := endpoint(t, `{"turns":[{"calls":[{"tool":"util__echo","args":{"text":"carried-args"}},{"tool":"pick"}]},{"text":"carried-answer"}]}`)
	l := lookedAt(t, servers{}, map[string]any{
		"native": map[string]any{"util": map[string]any{}},
		"agents": map[string]any{"researcher": map[string]any{"endpoint": url, "model": "m", "api_key": "model-key"}},
	})
	ids := map[string]string{}
	for _, who := range []string{"alice", "bob"} {
		l.r.structured(t, who, "agent__researcher", `{"task":"carried-task of `+who+`","tools":[{"name":"pick"}]}`)
		list, err := l.r.Control.Runs(t.Context(), admin.RunQuery{State: "waiting"})
		if err != nil || len(list) == 0 {
			t.Fatal(list, err)
		}
		ids[who] = list[0].ID
	}
	if err := l.r.Control.CancelRun(t.Context(), ids["bob"]); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		key                 string
		alices, bobs, reads bool
	}{{"alice", true, false, true}, {"bob", false, true, true}, {"viewer", false, false, false}, {"auditor", true, true, false}, {"root", true, true, true}, {"", true, true, true}} {
		b := l.as(t, tt.key)
		list, none := b.get(t, "/runs").Body.String(), b.get(t, "/runs/run_none").Body.String()
		if ended := b.get(t, "/runs?state=cancelled").Body.String(); strings.Contains(ended, ids["alice"]) || strings.Contains(ended, ids["bob"]) != tt.bobs {
			t.Errorf("%q in a state: %s", tt.key, ended)
		}
		for who, sees := range map[string]bool{"alice": tt.alices, "bob": tt.bobs} {
			if strings.Contains(list, ids[who]) != sees {
				t.Errorf("%q and the run of %s: %s", tt.key, who, list)
			}
			w := b.get(t, "/runs/"+ids[who])
			page := w.Body.String()
			switch {
			case !sees && (w.Code != http.StatusNotFound || page != none):
				t.Errorf("%q and the run of %s: %d %s", tt.key, who, w.Code, page)
			case sees && (w.Code != http.StatusOK || !strings.Contains(page, "<bdi>util__echo</bdi>") || !strings.Contains(page, `href="/calls/`)):
				t.Errorf("%q does not see the run of %s: %d %s", tt.key, who, w.Code, page)
			case sees && (strings.Contains(page, "carried-task of "+who) != tt.reads || strings.Contains(page, "carried-args") != tt.reads || !tt.reads && strings.Contains(page, "carried")):
				t.Errorf("%q reads of the run of %s: %s", tt.key, who, page)
			}
		}
	}
	list, err := l.r.Control.Runs(t.Context(), admin.RunQuery{})
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	page := l.as(t, "root").get(t, "/runs").Body.String()
	for i := range list {
		row := "<bdi>" + list[i].Agent + "</bdi></td><td><bdi>" + list[i].Caller + "</bdi></td><td>" + list[i].State + "</td>"
		if !strings.Contains(page, row) {
			t.Errorf("no %s in %s", row, page)
		}
	}
}

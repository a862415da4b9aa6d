//go:build e2e && unix

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/testwait"
)

// consoleView is a view that a browser looks at. Shows is a text of it.
type consoleView struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Shows  string `json:"shows"`
	Status int    `json:"status,omitempty"`
}

// TestConsoleViews opens every view of the console in Chromium, wide and narrow, light and
// dark. axe finds nothing, the content security policy reports nothing, nothing is wider than
// the window, and every view can be read without JavaScript. The pictures are in
// out/test/console.
func TestConsoleViews(t *testing.T) {
	t.Parallel()
	need(t, browser())
	d := newDesk()
	w := consoleGateway(t, d, nil)
	ids := w.busy(t, d)
	views := []consoleView{
		{Name: "now", Path: "/now", Shows: "broken"},
		{Name: "calls", Path: "/calls", Shows: "desk__find_letters"},
		{Name: "calls-none", Path: "/calls?tool=none", Shows: "no calls"},
		{Name: "calls-mistake", Path: "/calls?since=x", Shows: "write since as a duration"},
		{Name: "call", Path: "/calls/" + ids.done, Shows: "Waterfall"},
		{Name: "call-refused", Path: "/calls/" + ids.refused, Shows: "approval"},
		{Name: "catalog", Path: "/catalog", Shows: "1 wait to be accepted"},
		{Name: "tool", Path: "/catalog/entry?name=desk__find_letters&kind=tool", Shows: "Find letters"},
		{Name: "tool-held", Path: "/catalog/entry?name=desk__shred&kind=tool", Shows: "Held definition"},
		{Name: "try", Path: "/try", Shows: "desk__send_letter"},
		{Name: "try-tool", Path: "/try/tool?name=desk__send_letter", Shows: "Recipient"},
		{Name: "approvals", Path: "/approvals", Shows: "desk__send_letter"},
		{Name: "approval", Path: "/approvals/" + ids.approval, Shows: "Dear Carol"},
		{Name: "budgets", Path: "/budgets", Shows: "daily"},
		{Name: "access", Path: "/access", Shows: "Access"},
		{Name: "access-why", Path: "/access?name=desk__send_letter&as=ann", Shows: "Who can"},
		{Name: "access-mistake", Path: "/access?name=desk__send_letter&as=ann&args=x", Shows: "write the arguments as a JSON object"},
		{Name: "replay", Path: "/access/replay", Shows: "Replay a change of the policy"},
		{Name: "runs", Path: "/runs", Shows: "no agent has run"},
		{Name: "jobs", Path: "/jobs", Shows: "in a queue for workers"},
		{Name: "searches", Path: "/searches", Shows: "find.learning must be"},
		{Name: "searches-mistake", Path: "/searches?since=x", Shows: "write since as a duration"},
		{Name: "replicas", Path: "/replicas", Shows: "this gateway is alone"},
		{Name: "nothing", Path: "/no-such-page", Shows: "nothing at this address", Status: 404},
	}
	b := w.browse(t, "console_views.mjs", object{
		"views": views, "searched": "desk__find_letters", "key": ownerKey,
		"pictures": filepath.Join(lab.root, "out", "test", "console"),
	})
	if string(b.Facts["views"]) == "" {
		t.Error("the script has not seen all views")
	}
}

// busyIDs are ids of what has happened.
type busyIDs struct{ done, refused, approval string }

// busy makes calls of each outcome, a question to people, and a definition that is held.
func (w *watched) busy(t *testing.T, d *desk) (ids busyIDs) {
	t.Helper()
	ann, bob := &raw{url: w.mcp, key: ownerKey}, &raw{url: w.mcp, key: otherKey}
	for i := range 60 {
		for _, c := range []*raw{ann, bob} {
			if _, err := c.callTool(t.Context(), "desk__find_letters", object{"query": strings.Repeat("x", i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := ann.callTool(t.Context(), "demo__add", object{"a": 1, "b": 2}); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string]object{"desk__fail": {}, "desk__send_letter": {"to": "Carol", "urgent": true, "text": "Dear Carol,\nthe drawer is open."}} {
		if _, err := ann.callTool(t.Context(), name, args); err == nil {
			t.Fatalf("%s succeeds", name)
		}
	}
	changed := *d
	changed.Tools = append([]object{}, d.Tools...)
	changed.Tools[2] = deskTool("shred", "Shred a letter for good, and every copy of it.", object{"type": "object", "properties": object{"letter": object{"type": "string"}, "copies": object{"type": "boolean"}}})
	w.change(t, &changed, "desk__shred")

	var asked []struct{ ID, Tool string }
	w.read(t, &asked, "approvals", "ls")
	if len(asked) != 1 {
		t.Fatalf("questions: %+v", asked)
	}
	ids.approval = asked[0].ID
	testwait.Until(t, startTimeout, "calls are in the audit log", func() bool {
		ids.done, ids.refused = w.callOf(t, "desk__find_letters"), w.callOf(t, "desk__send_letter")
		return ids.done != "" && ids.refused != ""
	})
	return ids
}

// callOf returns the id of a call of a tool in the audit log; empty for none.
func (w *watched) callOf(t *testing.T, tool string) string {
	t.Helper()
	var found []struct {
		ID string `json:"call_id"`
	}
	w.read(t, &found, "audit", "search", "kind=tool tool="+tool, "--limit=1")
	if len(found) == 0 {
		return ""
	}
	return found[0].ID
}

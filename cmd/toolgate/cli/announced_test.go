package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/admin"
)

// What happens to a server is said once, and never without end.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var a announced
	is := func(state, reason string) []admin.Server {
		return []admin.Server{{Name: "a", State: state, Reason: reason, Tools: 2}}
	}
	step := func(want string, list []admin.Server) {
		t.Helper()
		now = now.Add(time.Second)
		if diff := cmp.Diff(want, strings.Join(a.changes(list, now), "\n")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	a.note(is("ready", ""))
	step("", is("ready", ""))
	step("a failed: it ended", is("reconnecting", "it ended"))
	step("", is("stale", "it ended again"))
	step("", is("starting", ""))
	step("a is ready again", is("ready", ""))
	step("a waits for a login: toolgate login a", is("needs_login", "nobody has signed in"))
	step("a is ready again; it keeps changing, see `toolgate logs a`", is("ready", ""))
	for range 25 {
		step("", is("failed", "x"))
		step("", is("ready", ""))
	}
	now = now.Add(announcedTime)
	step("a failed: x", is("failed", "x"))
	step("a is ready again\nb failed: y", append(is("ready", ""), admin.Server{Name: "b", State: "failed", Reason: "y"}))
	step("b is removed", is("ready", ""))
	step("c is ready, 1 tool", append(is("ready", ""), admin.Server{Name: "c", State: "ready", Tools: 1}))

	// What a server is in the end is said, even if its way there was not.
	a, now = announced{}, now.Add(time.Hour)
	for range maxAnnounced {
		a.changes(is("failed", "x"), now)
		a.changes(is("ready", ""), now)
	}
	step("", is("failed", "for good"))
	now = now.Add(announcedTime)
	step("a failed: for good", is("failed", "for good"))
	step("", is("failed", "for good"))
}

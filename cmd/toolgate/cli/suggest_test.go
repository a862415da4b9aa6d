package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/cmd/toolgate/settings"
	"github.com/toolgate/toolgate/internal/admin"
)

func TestSuggestions(t *testing.T) {
	usage := func(tool string, calls, failures, refused int64, errors map[string]int64) admin.ToolUsage {
		return admin.ToolUsage{Group: map[string]string{"tool": tool}, Calls: calls, Failures: failures, Refused: refused, Errors: errors}
	}
	entry := func(server, name string) admin.CatalogEntry {
		return admin.CatalogEntry{Server: server, Name: name, Enabled: true}
	}
	off := entry("a", "a__off")
	off.Enabled = false
	got := suggestions([]admin.ToolUsage{
		usage("a__works", 10, 9, 0, map[string]int64{"tool_error": 9}),
		usage("a__fails", 5, 3, 2, map[string]int64{"tool_error": 3, "rate_limited": 2}),
		usage("a__twice", 2, 2, 0, nil),
		usage("a__refused", 4, 0, 4, map[string]int64{"denied": 1, "budget": 3}),
		usage("gone__x", 1, 0, 0, nil),
	}, []admin.CatalogEntry{
		entry("a", "a__works"), entry("a", "a__z"), entry("a", "a__new"), off, entry("a", "a__refused"), entry("b", "b__one"), entry("b", "b__two"),
	})
	want := []suggestion{
		{"fails", "a__fails", "all of 3 calls", "toolgate audit search 'name=a__fails'"},
		{"limit", "a__fails", "rate_limited, 2 of 5 calls", "toolgate config explain rates"},
		{"limit", "a__refused", "budget, 3 of 4 calls", "toolgate budget ls"},
		{"unused", "a__new", "no call", "toolgate catalog disable a__new"},
		{"unused", "a__z", "no call", "toolgate catalog disable a__z"},
		{"unused", "b/", "none of its 2 tools", "toolgate config explain servers.NAME.disabled"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := suggestions(nil, nil); got == nil || len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for class, try := range limits {
		if key, ok := strings.CutPrefix(try, "toolgate config explain "); ok && settings.Explain(io.Discard, key) != nil {
			t.Errorf("%s: there is no setting %s", class, key)
		}
		if !isCommand(newRoot(), strings.TrimPrefix(try, "toolgate ")) {
			t.Errorf("%s: there is no command %s", class, try)
		}
	}
}

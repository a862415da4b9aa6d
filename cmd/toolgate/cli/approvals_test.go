//go:build !windows

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/approval"
)

// Whoever approves of a call on the command line is told first and last how much of
// its arguments is not shown, sees every member, and says by the hash that all of it
// is meant. A denial stands until it is taken back.
func TestApprovalsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, map[string]any{
		"governance": map[string]any{"tools": map[string]any{"a__echo": map[string]any{"requires_approval_in_modes": []string{"NORMAL"}}}},
		"approvals":  map[string]any{"wait": "1s"},
	})
	h.up(t)
	h.ok(t, "ls", h.file, "--wait", "20s")
	call := func(args string) outcome { return h.run(t, "call", "a__echo", "--json", args, "--file", h.file) }
	pending := func() approval.Item {
		t.Helper()
		var items []approval.Item
		if err := json.Unmarshal([]byte(h.ok(t, "approvals", "ls", "-o", "json", "--file", h.file)), &items); err != nil || len(items) != 1 {
			t.Fatalf("%+v, %v", items, err)
		}
		return items[0]
	}
	long := `{"text":"Monthly licence fee, 10 EUR.` + strings.Repeat(" ", 16400) + `","amount":999999}`
	if o := call(long); o.code != exitDenied || !strings.Contains(o.stdout, "waits for the approval") {
		t.Fatalf("%+v", o)
	}
	item := pending()
	shown := strings.Split(strings.TrimSpace(h.ok(t, "approvals", "show", item.ID, "--file", h.file)), "\n")
	first, last := shown[1], shown[len(shown)-1]
	for _, line := range []string{first, last} {
		if !strings.Contains(line, "bytes are not shown; approve needs --hash") {
			t.Errorf("%q does not say what is missing", line)
		}
	}
	if all := strings.Join(shown, "\n"); !strings.Contains(all, `"amount": 999999`) || !strings.Contains(all, item.ArgsHash) {
		t.Errorf("%s", all)
	}
	if o := h.run(t, "approvals", "approve", item.ID, "--file", h.file); o.code != exitUsage || !strings.Contains(o.stderr, "are not shown") {
		t.Errorf("approved of what was not shown: %+v", o)
	}
	h.ok(t, "approvals", "approve", item.ID, "--hash", item.ArgsHash, "--file", h.file)
	if o := call(long); o.code != exitOK {
		t.Errorf("%+v", o)
	}

	call(`{"text":"x"}`)
	item = pending()
	h.ok(t, "approvals", "deny", item.ID, "--reason", "not today", "--file", h.file)
	for range 2 {
		if o := call(`{"text":"x"}`); o.code != exitDenied || !strings.Contains(o.stdout, "not today") {
			t.Errorf("a denied call: %+v", o)
		}
	}
	h.ok(t, "approvals", "retract", item.ID, "--file", h.file)
	if o := h.run(t, "approvals", "retract", item.ID, "--file", h.file); o.code == exitOK || !strings.Contains(o.stderr, "no denial") {
		t.Errorf("taken back twice: %+v", o)
	}
	if o := call(`{"text":"x"}`); !strings.Contains(o.stdout, "waits for the approval") || pending().ID == item.ID {
		t.Errorf("after the denial was taken back: %+v", o)
	}
}

//go:build e2e && unix

package e2e

import (
	"strings"
	"testing"
)

// TestConsoleByKeyboard does every action of the console in Chromium without a mouse, and
// asks the commands whether it was done.
func TestConsoleByKeyboard(t *testing.T) {
	t.Parallel()
	need(t, browser())
	d := newDesk()
	w := consoleGateway(t, d, nil)
	w.busy(t, d)
	b := w.browse(t, "console_keys.mjs", object{"key": ownerKey})
	if len(b.Facts) != 11 {
		t.Errorf("%d of 11 actions are done: %s", len(b.Facts), b.Facts)
	}
	shred := w.toolgate(t, "catalog", "show", "desk__shred")
	if strings.Contains(shred, "held") || !strings.Contains(shred, "and every copy of it") || !strings.Contains(shred, "intern") {
		t.Errorf("the tool after it was accepted and denied to a persona:\n%s", shred)
	}
	if mode := w.toolgate(t, "mode"); !strings.Contains(mode, "ALERT") {
		t.Errorf("the mode is %s", mode)
	}
	if granted := w.toolgate(t, "approvals", "ls", "--state=granted"); !strings.Contains(granted, "desk__send_letter") {
		t.Errorf("what was granted:\n%s", granted)
	}
}

//go:build !windows

package cli

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
)

// versions are the accepted definitions of a tool as `toolgate catalog history` has them: their
// versions, the one that was accepted last for the first time at the top, with a star behind the one that is served.
func (h *home) versions(t *testing.T, tool string) string {
	t.Helper()
	var history []admin.AcceptedDefinition
	if err := json.Unmarshal([]byte(h.ok(t, "catalog", "history", tool, "-o", "json", "--file", h.file)), &history); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range history {
		word := d.Version
		if d.Current {
			word += "*"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

// Of a declared tool, the older declaration is put back: it is served at once, nobody has to
// accept it, and the history has both. That holds for the configuration and the store alike,
// where definitions of servers are held, and after a restart.
func TestGoingBackToAnOlderDeclaration(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	say := func(name, version string) map[string]any {
		return map[string]any{
			"name": name, "type": "command", "sandbox": "auto", "args": []any{"echo", name, version}, "version": version, "description": "Says version " + version,
		}
	}
	held := map[string]any{"on_new": "hold", "on_change": "hold"}
	path := h.path("stored.json")
	puts := map[string]func(version string){
		"tools__written": func(version string) {
			more := declaring(say("written", version))
			more["registry"] = held
			h.write(t, servers{}, more)
			h.ok(t, "reload", "--file", h.file)
		},
		"tools__stored": func(version string) {
			text, err := json.Marshal(map[string]any{"tools": []any{say("stored", version)}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			h.ok(t, "tools", "declare", path, "--file", h.file)
		},
	}
	h.write(t, servers{}, map[string]any{"registry": held})
	p, _ := h.up(t)
	for tool, put := range puts {
		name := strings.TrimPrefix(tool, "tools__")
		expect := func(when, served, versions string) {
			t.Helper()
			if got := h.ok(t, "call", tool, "--file", h.file); got != name+" "+served+"\n\n" {
				t.Errorf("%s of %s: the call says %q", when, tool, got)
			}
			if got := h.versions(t, tool); got != versions {
				t.Errorf("%s of %s: the history is %q, want %q", when, tool, got, versions)
			}
		}
		put("1.0")
		expect("the first", "1.0", "1.0*")
		put("2.0")
		expect("the second", "2.0", "2.0* 1.0")

		var history []admin.AcceptedDefinition
		if err := json.Unmarshal([]byte(h.ok(t, "catalog", "history", tool, "-o", "json", "--file", h.file)), &history); err != nil {
			t.Fatal(err)
		}
		if o := h.run(t, "catalog", "accept", tool, "--hash", history[1].Hash, "--file", h.file); o.code != exitUsage || !strings.Contains(o.stderr, "put the older declaration back") {
			t.Errorf("accepted: %+v", o)
		}
		expect("a try by its hash", "2.0", "2.0* 1.0")
		put("1.0")
		expect("the first again", "1.0", "2.0 1.0*")
	}
	p.stop(t, syscall.SIGTERM)
	h.up(t)
	for tool := range puts {
		if got := h.versions(t, tool); got != "2.0 1.0*" {
			t.Errorf("after a restart %s has %q", tool, got)
		}
	}
	if got := h.ok(t, "catalog", "ls", "--state", "held", "-o", "name", "--file", h.file); got != "" {
		t.Errorf("held: %s", got)
	}
}

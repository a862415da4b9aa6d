//go:build e2e && unix

package e2e

import (
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
)

// TestConsoleReplay changes the policy on the page, and compares what would be decided
// otherwise with what the command says that the page names, and with the command that
// reads the audit log itself.
func TestConsoleReplay(t *testing.T) {
	t.Parallel()
	policies := t.TempDir()
	write := func(folder, rego string) {
		t.Helper()
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "main.rego"), []byte(rego), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(policies, "package toolgate\n\ndefault decision := {\"allow\": true}\n\ndecision := {\"allow\": false, \"reason\": \"not ann\"} if {\n\tinput.action == \"tool.request\"\n\tinput.tool_name == \"desk__fail\"\n}\n")
	d := newDesk()
	w := consoleGateway(t, d, object{"opa": object{"path": policies}})
	w.busy(t, d)
	testwait.Until(t, startTimeout, "the refused call is in the audit log", func() bool { return w.callOf(t, "desk__fail") != "" })
	r := newReader(t, w)
	const next = "package toolgate\n\ndefault decision := {\"allow\": true}\n\ndecision := {\"allow\": false, \"reason\": \"no sums\"} if input.original_name == \"add\"\n\ndecision := {\"allow\": true, \"obligations\": {\"approval\": true}} if {\n\tinput.original_name == \"find_letters\"\n\tinput.server == \"desk\"\n}\n"
	write(filepath.Join(w.dir, "policies-new"), next)
	page := r.get(t, "/access/replay")
	if p := r.parts(t, page); len(p.tables) != 0 || len(p.printed) != 1 {
		t.Errorf("the form has %d tables and %d commands", len(p.tables), len(p.printed))
	}
	answer := r.post(t, "/access/replay", url.Values{"csrf": {csrfOf(page)}, "since": {"24h"}, "name": {"main.rego"}, "added": {""}, "text": {next}})
	p := r.parts(t, answer)
	type replayed struct {
		Changed []struct {
			ID, Who, Tenant, Tool, Was, Now, Reason string
			Time                                    time.Time
		}
		Same, Undecidable, NotAsked int
	}
	said := printedAs[replayed](t, p, 0)
	var itself replayed
	w.read(t, &itself, "policy", "replay", filepath.Join(w.dir, "policies-new"))
	same(t, itself, said)
	if len(said.Changed) < 122 {
		t.Fatalf("%d changes", len(said.Changed))
	}
	counts, want := map[[2]string]int{}, [][]string{}
	for i := range said.Changed {
		c := &said.Changed[len(said.Changed)-1-i]
		counts[[2]string{c.Was, c.Now}]++
		want = append(want, []string{clockText(c.Time), c.Tool, c.Who, c.Tenant, c.Was, c.Now, c.Reason, c.ID})
	}
	same(t, want, p.columns(t, 1, 0, 1, 2, 3, 4, 5, 6, 7))
	for _, row := range p.columns(t, 0, 0, 1, 2) {
		if n := counts[[2]string{row[0], row[1]}]; row[2] != strconv.Itoa(n) {
			t.Errorf("%v, and the command lists %d", row, n)
		}
		delete(counts, [2]string{row[0], row[1]})
	}
	if len(counts) > 0 {
		t.Errorf("the page does not count %v", counts)
	}
}

//go:build !windows

package daemon_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
)

// Tools of the store are declared and taken out while the gateway runs, sealed, and
// there again after the next start.
func TestToolsOfTheStore(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, declaring(map[string]any{"name": "own", "type": "command", "sandbox": "auto", "args": []any{"echo", "own"}}))
	r := h.newRunning(t)
	document := func(word string) []byte {
		return []byte(`{"tools":[{"name":"say","type":"command","sandbox":"auto","args":["echo","` + word + `"],"env":{"TOKEN":"canary-of-a-token"}}]}`)
	}
	did, err := r.DeclareTools(t.Context(), admin.Declaration{File: "more.json", Data: document("one"), Reason: "asked"})
	if err != nil || len(did.Changes) != 1 || !strings.Contains(did.Changes[0], "tools__say is new") {
		t.Fatalf("%+v, %v", did, err)
	}
	r.Gateway.Settle(t.Context())
	c := r.client(t)
	if got := text(t, c, "tools__say", "{}") + text(t, c, "tools__own", "{}"); got != "one\nown\n" {
		t.Errorf("%q", got)
	}
	records, _, err := r.Store.Declared().List(t.Context())
	if err != nil || len(records) != 1 || bytes.Contains(records[0].Body, []byte("canary")) || records[0].Reason != "asked" {
		t.Errorf("%+v, %v", records, err)
	}
	if did, err = r.DeclareTools(t.Context(), admin.Declaration{File: "more.json", Data: document("two")}); err != nil || !strings.Contains(did.Changes[0], "another args") {
		t.Errorf("%+v, %v", did, err)
	}
	if got := text(t, c, "tools__say", "{}"); got != "two\n" {
		t.Errorf("%q", got)
	}
	for text, want := range map[string]string{
		`{"tools":[{"name":"own","type":"command","args":["id"]}]}`:                         "two tools own",
		`{"tools":[{"name":"x","namespace":"a","type":"command","args":["id"]}]}`:           "of the server a",
		`{"tools":[{"name":"x","type":"command","args":["id"],"env":{"A":"${HOME}"}}]}`:     "variables are of files",
		`{"tools":[{"name":"x","type":"command","args":["id"],"write":["` + h.dir + `"]}]}`: "gateway's own",
		`{"tools":[{"name":"x","type":"command","args":["sh","-c","{a}"]}]}`:                "{a}",
		`{"tools":[{"name":"x","type":"command","args":["no-such-program"]}]}`:              "is not there",
		`{"tools":[]}`: "has no tools",
	} {
		if _, err := r.DeclareTools(t.Context(), admin.Declaration{File: "bad.json", Data: []byte(text)}); err == nil || !strings.Contains(err.Error(), want) && want != "{a}" {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
	// What somebody wrote into the store chooses nothing.
	forged := store.DeclaredRecord{Name: "tools__forged", Body: document("forged"), Change: store.Change{Actor: "x"}}
	if err := r.Store.Declared().Put(t.Context(), []store.DeclaredRecord{forged}); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "what another wrote is seen", func() bool {
		list, err := r.DeclaredTools(t.Context())
		return err == nil && len(list) == 2 && strings.Contains(list[0].Problem, "with a key of this gateway")
	})
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	if audit := recorded(t, h); !strings.Contains(audit, "toolgate/tools.declare") || !strings.Contains(audit, "bad.json") {
		t.Errorf("the record lacks what was declared: %s", audit)
	}

	again := h.newRunning(t)
	c = again.client(t)
	if got := text(t, c, "tools__say", "{}"); got != "two\n" {
		t.Errorf("%q", got)
	}
	if err := again.UndeclareTool(t.Context(), "tools__say", ""); err != nil {
		t.Fatal(err)
	}
	again.Gateway.Settle(t.Context())
	if got := tried(t.Context(), c, "tools__say", "{}"); got == "ok" {
		t.Error("a tool that was taken out is there")
	}
	if err := again.UndeclareTool(t.Context(), "tools__say", ""); err == nil || !strings.Contains(err.Error(), "no such tool") {
		t.Errorf("%v", err)
	}
}

func recorded(t *testing.T, h *home) string {
	t.Helper()
	data, err := os.ReadFile(h.path("state/audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

//go:build !windows

package daemon_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
)

// Declared tools are listed and called as all others, behind the same gate, and
// changed by a person alone.
func TestDeclaredTools(t *testing.T) {
	t.Setenv("STATUS_TOKEN", "canary-of-a-token") // which every process of this test has
	asked := make(chan string, 10)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + " " + r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"page":{"name":%q,"you":%q}}`, strings.TrimPrefix(r.URL.Path, "/"), r.Header.Get("Authorization"))
	}))
	t.Cleanup(service.Close)
	status := map[string]any{
		"name": "status", "type": "http", "url": service.URL + "/{id}", "headers": map[string]any{"Authorization": "Bearer ${STATUS_TOKEN}"},
		"answer": "/page", "input_schema": properties("id"), "class": "read_only", "risk": "low",
	}
	shout := map[string]any{"name": "say", "namespace": "own", "type": "command", "sandbox": "auto", "args": []any{"echo", "{word}"}, "input_schema": properties("word")}
	h := newHome(t)
	h.write(t, servers{"a": fake()}, declaring(status, shout))
	r := h.newRunning(t)
	c := r.client(t)
	if got := text(t, c, "tools__status", `{"id":"main"}`); got != `{"name":"main","you":"[redacted]"}` {
		t.Error(got)
	}
	if got := testwait.Receive(t, patience, "the service is asked", asked); got != "/main Bearer canary-of-a-token" {
		t.Error(got)
	}
	if got := text(t, c, "own__say", `{"word":"a b; id"}`); got != "a b; id\n" {
		t.Errorf("%q", got)
	}
	for _, args := range []string{`{}`, `{"id":5}`, `{"id":"x","more":1}`, `{"id":"` + strings.Repeat("x", 101) + `"}`} {
		if got := tried(t.Context(), c, "tools__status", args); got == "ok" {
			t.Errorf("%s is taken", args)
		}
	}
	if got := text(t, c, "tools__status", `{"id":"../admin"}`); !strings.Contains(got, "may not hold slashes") {
		t.Error(got)
	}
	if len(asked) != 0 {
		t.Errorf("the service was asked for %s", <-asked)
	}

	rows := map[string]string{}
	for _, s := range r.Servers() {
		rows[s.Name] = fmt.Sprintf("%s %s %d", s.Kind, s.State, s.Tools)
	}
	if rows["tools"] != "declared ready 1" || rows["own"] != "declared ready 1" {
		t.Errorf("%v", rows)
	}
	records, _, err := r.Store.Registry().List(t.Context(), store.RegistryFilter{})
	if err != nil {
		t.Fatal(err)
	}
	providers := map[string]string{}
	for i := range records {
		providers[records[i].Name] = records[i].Provider
	}
	if providers["tools__status"] != store.ProviderExternal || providers["own__say"] != store.ProviderNative {
		t.Errorf("%v", providers)
	}

	// Nothing that nobody asked for changes what is reached or run.
	elsewhere := map[string]any{"name": "status", "type": "http", "url": "http://127.0.0.1:1/{id}", "input_schema": properties("id")}
	h.write(t, servers{"a": fake()}, declaring(elsewhere, shout))
	done, err := r.TakeFile(false)
	if err != nil || !strings.Contains(strings.Join(done.Pending, " "), "setting tools") {
		t.Errorf("%+v, %v", done, err)
	}
	if got := text(t, c, "tools__status", `{"id":"main"}`); !strings.Contains(got, `"main"`) {
		t.Error(got)
	}
	h.write(t, servers{"a": fake()}, declaring(shout))
	if _, err := r.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	if got := tried(t.Context(), c, "tools__status", `{"id":"main"}`); got == "ok" {
		t.Error("a tool that was taken out is there")
	}
	if got := text(t, c, "own__say", `{"word":"still"}`); got != "still\n" {
		t.Errorf("%q", got)
	}
}

// The catalog has the version of a declared tool, and the history of its definitions, which
// only its declaration changes.
func TestVersionsOfDeclaredTools(t *testing.T) {
	t.Parallel()
	say := func(version, word string) map[string]any {
		return map[string]any{"name": "say", "type": "command", "sandbox": "auto", "args": []any{"echo", word}, "version": version, "description": "Says " + word}
	}
	h := newHome(t)
	h.write(t, servers{"a": fake()}, declaring(say("1.0", "one")))
	r := h.newRunning(t)
	h.write(t, servers{"a": fake()}, declaring(say("2.0", "two")))
	if _, err := r.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	e, err := r.CatalogEntry(t.Context(), "tools__say", "")
	if err != nil || e.Version != "2.0" || !strings.Contains(string(e.Definition), `"_meta":{"dev.toolgate/version":"2.0"}`) {
		t.Errorf("%+v, %v", e, err)
	}
	history, err := r.CatalogHistory(t.Context(), "tools__say", "")
	if err != nil || len(history) != 2 || history[0].Version != "2.0" || !history[0].Current || history[1].Version != "1.0" || history[1].Current {
		t.Fatalf("%+v, %v", history, err)
	}
	_, err = r.ChangeCatalog(t.Context(), admin.CatalogChange{Op: admin.CatalogAccept, Name: "tools__say", Hash: history[1].Hash, Actor: "alice"})
	if err == nil || !strings.Contains(err.Error(), "put the older declaration back") {
		t.Error(err)
	}
	if got := text(t, r.client(t), "tools__say", "{}"); got != "two\n" {
		t.Errorf("%q", got)
	}
	if _, err := r.CatalogHistory(t.Context(), "tools__none", ""); err == nil {
		t.Error("a history of nothing")
	}
}

// Nobody is asked about a call that the tool's own template refuses.
func TestUnfitArgumentsAskNobody(t *testing.T) {
	t.Parallel()
	reached := make(chan string, 10)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached <- r.URL.Path }))
	t.Cleanup(service.Close)
	folder := map[string]any{"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}}, "required": []string{"path"}}
	more := declaring(
		map[string]any{"name": "drop", "type": "http", "method": "DELETE", "url": service.URL + "/files/{path}", "input_schema": folder, "approval": true},
		map[string]any{"name": "show", "type": "command", "sandbox": "auto", "args": []any{"echo", "/srv/{path}"}, "input_schema": folder, "approval": true},
	)
	more["approvals"] = map[string]any{"wait": "1s"}
	h := newHome(t)
	h.write(t, servers{}, more)
	r := h.newRunning(t)
	c := r.client(t)
	for _, tool := range []string{"tools__drop", "tools__show"} {
		for _, path := range []string{"../x", "..", "", "a/b", `a\\b`} {
			args := `{"path":"` + path + `"}`
			if got := tried(t.Context(), c, tool, args); got != "invalid_arguments" {
				t.Errorf("%s of %s: %s", tool, path, got)
			}
			why, err := r.Why(t.Context(), admin.WhyQuestion{Name: tool, Args: json.RawMessage(args)})
			if said := fmt.Sprintf("%+v", why.Call); err != nil || !strings.Contains(said, "part of a path") {
				t.Errorf("why of %s of %s: %s, %v", tool, path, said, err)
			}
		}
		if asked, err := r.Store.Approvals().List(t.Context(), "", 10); err != nil || len(asked) != 0 {
			t.Fatalf("%s: %d questions, %v", tool, len(asked), err)
		}
	}
	if got := tried(t.Context(), c, "tools__drop", `{"path":"x"}`); got != "approval_pending" {
		t.Error(got)
	}
	if asked, err := r.Store.Approvals().List(t.Context(), "", 10); err != nil || len(asked) != 1 {
		t.Errorf("%d questions, %v", len(asked), err)
	}
	if len(reached) != 0 {
		t.Errorf("the service was asked for %s", <-reached)
	}
}

// What a tool may write is held against what a configuration has started from at each
// reload, also where the tools are the same as before.
func TestServersAreNotStartedFromWhatToolsWrite(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	shared := filepath.Join(h.dir, "shared")
	program := filepath.Join(shared, "server.sh")
	if err := errors.Join(os.Mkdir(shared, 0o700), os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	tools := map[string]any{"tools": []any{map[string]any{"name": "one", "type": "command", "sandbox": "auto", "args": []any{"echo", "one"}, "write": []any{shared}}}}
	h.write(t, servers{"a": fake()}, tools)
	r := h.newRunning(t)
	h.write(t, servers{"a": fake(), "b": map[string]any{"command": program}}, tools)
	if _, err := r.TakeFile(true); err == nil || !strings.Contains(err.Error(), shared) || !strings.Contains(err.Error(), "is started") {
		t.Errorf("%v", err)
	}
	if got := text(t, r.client(t), "tools__one", "{}"); got != "one\n" {
		t.Errorf("%q", got)
	}
}

// Files of tools are read with the file, and watched and kept like it.
func TestToolFiles(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	more := filepath.Join(h.dir, "more.yaml")
	if err := os.WriteFile(more, []byte("tools:\n  - { name: one, type: command, sandbox: auto, args: [echo, one] }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.write(t, servers{"a": fake()}, map[string]any{"tool_files": []any{"more.yaml"}})
	r := h.newRunning(t)
	c := r.client(t)
	if got := text(t, c, "tools__one", "{}"); got != "one\n" {
		t.Errorf("%q", got)
	}
	if own := strings.Join(build.OwnFiles(r.Current(), r.State), " "); !strings.Contains(own, more) {
		t.Errorf("%s is none of the gateway's own files", more)
	}
	if err := os.WriteFile(more, []byte("tools:\n  - { name: one, type: command, sandbox: auto, args: [echo, two] }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if done, err := r.TakeFile(false); err != nil || len(done.Pending) == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if got := text(t, c, "tools__one", "{}"); got != "one\n" {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(more, []byte("tools:\n  - { name: one, type: command, arg: [echo] }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.TakeFile(true); err == nil || !strings.Contains(err.Error(), more) || !strings.Contains(err.Error(), "arg") {
		t.Errorf("%v", err)
	}
}

// declaring is a toolgate section with declared tools.
func declaring(tools ...map[string]any) map[string]any { return map[string]any{"tools": tools} }

// properties is a schema with required texts.
func properties(names ...string) map[string]any {
	p := map[string]any{}
	for _, name := range names {
		p[name] = map[string]any{"type": "string", "maxLength": 100}
	}
	return map[string]any{"type": "object", "properties": p, "required": names, "additionalProperties": false}
}

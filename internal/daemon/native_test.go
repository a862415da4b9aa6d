//go:build !windows

package daemon_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
)

func TestNativeTools(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	util := map[string]any{"util": map[string]any{}}
	h.write(t, servers{}, withNative(util, nil))
	r := h.newRunning(t)
	client := r.client(t)
	if got := text(t, client, "util__echo", `{"text":"a\nb"}`); got != "a\nb" {
		t.Errorf("echo: %q", got)
	}
	i := slices.IndexFunc(r.Servers(), func(s admin.Server) bool { return s.Name == "util" })
	if i < 0 {
		t.Fatalf("%+v", r.Servers())
	}
	if s := r.Servers()[i]; s.Kind != "native" || s.State != "ready" || s.Tools != 2 || s.Sandbox == "" {
		t.Errorf("%+v", s)
	}
	// Arguments that do not fit never reach it, whoever holds them against the schema.
	if got := text(t, client, "util__timestamp", `{"zone":"Europe/Nowhere"}`); !strings.Contains(got, "There is no time zone") {
		t.Error(got)
	}

	for _, args := range []string{`{}`, `{"text":7}`, `{"text":"a","more":1}`} {
		if got := text(t, client, "util__echo", args); !strings.Contains(got, "do not fit the tool's input schema") {
			t.Errorf("%s: %s", args, got)
		}
	}

	// What is shipped is vouched for, and has rates of its own where the file has none.
	if said := r.NativeOperator("util", "echo"); said.ReadOnly == nil || !*said.ReadOnly || said.Destructive == nil || *said.Destructive || said.Risk != "low" {
		t.Errorf("class: %+v", said)
	}
	if n := len(r.NativeRates()); n != 2 {
		t.Errorf("%d rates", n)
	}
	if _, err := r.SetMode(t.Context(), "LOCKDOWN", "a test"); err != nil {
		t.Fatal(err)
	}
	if got := text(t, client, "util__echo", `{"text":"still"}`); got != "still" {
		t.Errorf("a read-only tool of low risk in LOCKDOWN: %q", got)
	}
}

func TestNativeReload(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, withNative(map[string]any{"util": map[string]any{}}, nil))
	r := h.newRunning(t)
	client := r.client(t)
	pid := r.NativePID("util")

	// A new group waits; what is set for one applies as for every server.
	more := map[string]any{"util": map[string]any{}, "fs": map[string]any{"roots": []string{h.dir}}}
	h.write(t, servers{}, withNative(more, map[string]any{"util": map[string]any{"namespace": "text"}}))
	got, err := r.TakeFile(false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"server fs: start"}, got.Pending); diff != "" {
		t.Error(diff)
	}
	if got := text(t, client, "text__echo", `{"text":"x"}`); got != "x" {
		t.Error(got)
	}
	if r.NativePID("util") != pid {
		t.Error("another process for another name")
	}
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	if diff := cmp.Diff(map[string]string{"fs": "ready", "util": "ready"}, states(r)); diff != "" {
		t.Error(diff)
	}

	// Other settings wait too, and what goes away goes at once.
	h.write(t, servers{}, withNative(map[string]any{"fs": map[string]any{"roots": []string{"/"}}}, nil))
	if got, err = r.TakeFile(false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"server fs: native"}, got.Pending); diff != "" {
		t.Error(diff)
	}
	if states(r)["util"] != "" {
		t.Error("util is still there")
	}
}

// A plugin that does not run is failed, with the reason, and everything else runs.
func TestNativePluginFails(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	program := h.path("weather")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	plugins := map[string]any{"weather": map[string]any{"path": program, "sha256": strings.Repeat("ab", 32)}}
	h.write(t, servers{}, withNative(map[string]any{"util": map[string]any{}, "plugins": plugins}, nil))
	r := h.newRunning(t)
	if diff := cmp.Diff(map[string]string{"util": "ready", "weather": "failed"}, states(r)); diff != "" {
		t.Error(diff)
	}
	for _, s := range r.Servers() {
		if s.Name == "weather" && !strings.Contains(s.Reason, "checksum") {
			t.Error(s.Reason)
		}
	}
	if own := build.OwnFiles(r.Current(), r.State); !slices.Contains(own, program) {
		t.Error("the plugin is not one of the gateway's own files")
	}
}

// withNative is a configuration with native tools.
func withNative(groups map[string]any, servers map[string]any) map[string]any {
	return map[string]any{"native": groups, "servers": servers}
}

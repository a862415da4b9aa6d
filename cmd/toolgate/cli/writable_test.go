//go:build !windows

package cli

import (
	"os"
	"strings"
	"testing"
)

// A configuration that anybody may change is not used, by no command.
func TestConfigurationsThatAnybodyMayChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path string
		mode       os.FileMode
		want       string // in the error; empty where it is used
	}{
		{"the file", "", 0o666, "chmod o-w"},
		{"the file, by its group", "", 0o660, ""},
		{"its folder", ".", 0o777, "chmod o-w"},
		{"its folder, where everybody has files of their own", ".", 0o777 | os.ModeSticky, ""},
		{"the policy", "policies/p.rego", 0o666, "p.rego decides what runs"},
		{"the folder of the policy", "policies", 0o777, "policies decides what runs"},
		{"what a link in the policy leads to", "elsewhere/q.rego", 0o666, "q.rego decides what runs"},
		{"the folder that it is in", "elsewhere", 0o777, "elsewhere decides what runs"},
		{"what a policy is not read from", "policies/.git/x", 0o666, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			for _, folder := range []string{"policies/.git", "elsewhere"} {
				if err := os.MkdirAll(h.path(folder), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range map[string]string{
				"policies/p.rego": "package toolgate\ndefault decision := true\n", "elsewhere/q.rego": "package other\n", "policies/.git/x": "",
			} {
				if err := os.WriteFile(h.path(name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(h.path("elsewhere/q.rego"), h.path("policies/q.rego")); err != nil {
				t.Fatal(err)
			}
			h.write(t, servers{"a": fake()}, map[string]any{"opa": map[string]any{"path": "policies"}})
			path := h.file
			if tt.path != "" {
				path = h.path(tt.path)
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"validate", "up", "ls"} {
				if tt.want == "" && command != "validate" {
					continue
				}
				got := h.run(t, command, h.file)
				if tt.want == "" && got.code != exitOK || tt.want != "" && (got.code != exitConfig || !strings.Contains(got.stderr, tt.want)) {
					t.Errorf("%s: exit code %d, want %q in\n%s", command, got.code, tt.want, got.stderr)
				}
			}
		})
	}
}

//go:build !windows

package service

import (
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the goldens anew")

// odd is a folder whose name has every character with a meaning in a unit.
const odd = `/home/o'dd "one" $HOME ${HOME} 100%h \n \x41 ;#é &<b>`

var gateways = map[string]gateway{
	"plain": {
		program: "/usr/bin/toolgate", files: []string{"/home/me/toolgate.yaml"}, home: "/home/me",
		env: [][2]string{{"PATH", "/home/me/.local/bin:/usr/bin"}},
	},
	"odd": {
		program: `/home/$HOME ${HOME} 100%h ;#é &<b>/toolgate`, files: []string{odd + "/a file.yaml", odd + "/-b.json"}, home: odd,
		env: [][2]string{{"PATH", odd + "/bin:/usr/bin"}, {"TOOLGATE_STATE", odd + "/state"}},
	},
}

func text(t *testing.T, m manager, g gateway) string {
	t.Helper()
	unit, err := m.unit(g)
	if err != nil {
		t.Fatal(err)
	}
	return unit
}

// TestUnits holds the units against what people have read.
func TestUnits(t *testing.T) {
	for name, g := range gateways {
		if err := g.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for extension, m := range map[string]manager{".service": systemd{}, ".plist": launchd{}} {
			got, golden := text(t, m, g), filepath.Join("testdata", name+extension)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got; -update rewrites it):\n%s", golden, diff)
			}
		}
	}
}

// systemd finds a program with an odd path, knows every setting and has nothing to say.
func TestSystemdTakesUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd is not installed, so it was not asked")
		return
	}
	dir := t.TempDir()
	g := gateways["odd"]
	g.program = filepath.Join(dir, filepath.Base(filepath.Dir(g.program)), "toolgate")
	if err := os.MkdirAll(filepath.Dir(g.program), 0o755); err != nil {
		t.Fatal(err)
	}
	verify := func() string {
		file := filepath.Join(dir, unitName)
		if err := os.WriteFile(file, []byte(text(t, systemd{}, g)), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), analyze, "verify", "--user", "--man=no", file)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		out, _ := cmd.CombinedOutput() // it also tells of other units
		return strings.Join(slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool { return !strings.Contains(line, unitName) }), "\n")
	}
	if out := verify(); !strings.Contains(out, "is not executable") {
		t.Errorf("systemd-analyze does not miss the program: %q", out)
	}
	if err := os.WriteFile(g.program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out := verify(); out != "" {
		t.Errorf("systemd-analyze says: %s", out)
	}
	for _, name := range []string{"a'b", `a"b`, `a\b`} {
		g.program = "/" + name
		if _, err := (systemd{}).unit(g); err == nil || !strings.Contains(err.Error(), "has quotes or a backslash") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a parser of XML reads from an agent is what was put into it.
func TestAgentIsRead(t *testing.T) {
	for name, g := range gateways {
		var agent struct {
			Strings []string `xml:"dict>string"`
			Array   []string `xml:"dict>array>string"`
			Env     []string `xml:"dict>dict>string"`
			Comment string   `xml:",comment"`
		}
		if err := xml.Unmarshal([]byte(text(t, launchd{}, g)), &agent); err != nil {
			t.Fatal(err)
		}
		if want := append([]string{g.program}, g.args()...); !slices.Equal(agent.Array, want) {
			t.Errorf("%s: starts %q, want %q", name, agent.Array, want)
		}
		if want := []string{label, g.home, logFile(g.home), logFile(g.home)}; !slices.Equal(agent.Strings, want) {
			t.Errorf("%s: %q", name, agent.Strings)
		}
		for i, v := range g.env {
			if agent.Env[i] != v[1] {
				t.Errorf("%s: %s is %q", name, v[0], agent.Env[i])
			}
		}
	}
}

// What no unit can hold is refused by name.
func TestUnitCannotHold(t *testing.T) {
	for _, text := range []string{"/a\nExecStart=/bin/sh", "/a\x00", "/a\x1b[2J", "/a\xff", "/a\ufffe", "/a\u2028"} {
		for what, g := range map[string]gateway{
			"the path of this program":      {program: text, files: []string{"/c"}},
			"the path of the configuration": {program: "/p", files: []string{text}},
			"PATH":                          {program: "/p", files: []string{"/c"}, env: [][2]string{{"PATH", text}}},
		} {
			if err := g.check(); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s %q: %v", what, text, err)
			}
		}
	}
}

// This very test is a program that is removed when it ends.
func TestTemporaryProgram(t *testing.T) {
	if _, err := newGateway([]string{"/c.yaml"}); err == nil || !strings.Contains(err.Error(), "is temporary, as with `go run`") {
		t.Error(err)
	}
	for path, want := range map[string]bool{
		"/tmp/go-build1234/b001/exe/toolgate":     true,
		"/home/me/.cache/go-build/ab/cd/toolgate": true,
		"/home/me/go-builder/toolgate":            false,
		"/home/me/go/bin/toolgate":                false,
	} {
		if temporary(path) != want {
			t.Errorf("%s is temporary: %t, want %t", path, !want, want)
		}
	}
}

func TestAbsolute(t *testing.T) {
	if got := absolute(".:/usr/bin::bin:/opt/my programs"); got != "/usr/bin:/opt/my programs" {
		t.Error(got)
	}
}

// A unit of somebody else stays as it is, whatever it is.
func TestForeignUnit(t *testing.T) {
	dir := t.TempDir()
	mine := text(t, systemd{}, gateways["plain"])
	elsewhere := filepath.Join(dir, "elsewhere")
	for name, put := range map[string]func(path string) error{
		"another text": func(path string) error { return os.WriteFile(path, []byte("[Service]\n"), 0o600) },
		"an empty one": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a link to one of ours": func(path string) error {
			return errors.Join(os.WriteFile(elsewhere, []byte(mine), 0o600), os.Symlink(elsewhere, path))
		},
		"a mask":   func(path string) error { return os.Symlink(os.DevNull, path) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(dir, name)
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(path)
		if _, err := writeUnit(path, "new"); err == nil || !strings.Contains(err.Error(), "was not written by toolgate") {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
			t.Errorf("%s: changed, %v", name, err)
		}
	}
	if text, err := os.ReadFile(elsewhere); err != nil || string(text) != mine {
		t.Errorf("%s, %v", text, err)
	}
}

// A unit is written with the folders above it, and written anew.
func TestWriteUnit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "systemd", "user", unitName)
	for i, name := range []string{"plain", "odd"} {
		unit := text(t, systemd{}, gateways[name])
		replaced, err := writeUnit(path, unit)
		if err != nil || replaced != (i > 0) {
			t.Errorf("%s: replaced %t, %v", name, replaced, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != unit {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestExplained(t *testing.T) {
	failed := errors.New("exit status 1")
	for _, tt := range []struct {
		err        error
		said, want string
	}{
		{exec.ErrNotFound, "", "systemctl is not installed"},
		{context.DeadlineExceeded, "", "did not end in time"},
		{failed, "Failed to connect to bus: No medium found", "no session of their own"},
		{failed, "Failed to connect to user scope bus via local transport: $DBUS_SESSION_BUS_ADDRESS and $XDG_RUNTIME_DIR not defined", "no session of their own"},
		{failed, "System has not been booted with systemd as init system (PID 1). Can't operate.", "no session of their own"},
		{failed, "Unit x not found.", "failed: Unit x not found."},
	} {
		if err := explained(tt.err, tt.said, "daemon-reload"); !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.said) {
			t.Errorf("%q: %v", tt.said, err)
		}
	}
}

func TestUnsupported(t *testing.T) {
	g := gateway{program: `C:\Program Files\toolgate.exe`, files: []string{`C:\Users\me\toolgate.yaml`}}
	const line = `schtasks /Create /TN toolgate /SC ONLOGON /TR "\"C:\Program Files\toolgate.exe\" up -c \"C:\Users\me\toolgate.yaml\""`
	if err := unsupported("windows", g); !strings.HasSuffix(err.Error(), "\n  "+line) {
		t.Error(err)
	}
	if err := unsupported("freebsd", gateways["plain"]); !strings.HasSuffix(err.Error(), "/usr/bin/toolgate up -c /home/me/toolgate.yaml") {
		t.Error(err)
	}
}

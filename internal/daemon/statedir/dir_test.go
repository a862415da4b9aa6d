package statedir

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/seal"
)

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestSecretIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	const many = 32
	var all [many]string
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			s := &Dir{Path: dir} // as other processes would
			text, err := s.Secret("admin.token")
			if err != nil {
				t.Error(err)
			}
			all[i] = text
		})
	}
	wg.Wait()
	for _, text := range all {
		if text != all[0] {
			t.Fatalf("two secrets: %q and %q", text, all[0])
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(all[0])
	if err != nil || len(raw) != 32 {
		t.Errorf("secret of %d bytes, %v", len(raw), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	if runtime.GOOS != "windows" && modeOf(t, filepath.Join(dir, "admin.token")) != 0o600 {
		t.Errorf("mode %v", modeOf(t, filepath.Join(dir, "admin.token")))
	}
	other, err := (&Dir{Path: t.TempDir()}).Secret("admin.token")
	if err != nil || other == all[0] {
		t.Errorf("another folder: the same secret, or %v", err)
	}
}

func TestSecretFaults(t *testing.T) {
	s := &Dir{Path: t.TempDir()}
	if err := os.Mkdir(filepath.Join(s.Path, "admin.token"), 0o700); err != nil {
		t.Fatal(err)
	}
	if text, err := s.Secret("admin.token"); err == nil {
		t.Errorf("a folder gave the secret %q", text)
	}
	if text, err := (&Dir{Path: filepath.Join(s.Path, "absent")}).Secret("x"); err == nil {
		t.Errorf("no folder gave the secret %q", text)
	}
}

func TestOpenState(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TOOLGATE_STATE", filepath.Join(root, "s"))
	file := filepath.Join(root, "a.json")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "link.json")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	open := func(path string) *Dir {
		t.Helper()
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	one := open(file)
	if one.Path == open(filepath.Join(root, "b.json")).Path || one.Path == open("").Path {
		t.Error("two configurations share a state folder")
	}
	t.Chdir(root)
	for _, same := range []string{"a.json", "./a.json", link, filepath.Join(root, "x", "..", "a.json")} {
		if got := open(same).Path; got != one.Path {
			t.Errorf("%s has the folder %s, not %s", same, got, one.Path)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	if got := modeOf(t, one.Path); got != 0o700 {
		t.Errorf("mode %v", got)
	}
	if err := os.Chmod(one.Path, 0o755); err != nil { // what has to be mended
		t.Fatal(err)
	}
	if got := modeOf(t, open(file).Path); got != 0o700 {
		t.Errorf("mode %v of a folder that was open to others", got)
	}
}

func TestStateRoot(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Setenv("TOOLGATE_STATE", "rel")
		if got, err := Root(); err != nil || !filepath.IsAbs(got) {
			t.Errorf("%s, %v", got, err)
		}
		return
	}
	for name, tt := range map[string]struct{ own, xdg, home, want string }{
		"own":              {"/own", "/xdg", "/home/u", "/own"},
		"XDG":              {"", "/xdg", "/home/u", "/xdg/toolgate"},
		"XDG not absolute": {"", "xdg", "/home/u", "/home/u/.local/state/toolgate"},
		"home":             {"", "", "/home/u", "/home/u/.local/state/toolgate"},
		"nothing":          {"", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TOOLGATE_STATE", tt.own)
			t.Setenv("XDG_STATE_HOME", tt.xdg)
			t.Setenv("HOME", tt.home)
			got, err := Root()
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
			if err != nil && !strings.Contains(err.Error(), "TOOLGATE_STATE") {
				t.Errorf("%v does not say what to do", err)
			}
		})
	}
}

func TestSocketPath(t *testing.T) {
	if runtime.GOOS == "windows" {
		return
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	if short := SocketPath("/s/name"); short != "/s/name/control.sock" {
		t.Errorf("%s", short)
	}
	edge := "/" + strings.Repeat("d", MaxSocketPath-len("/")-len("/control.sock"))
	if got := SocketPath(edge); len(got) != MaxSocketPath || filepath.Dir(got) != edge {
		t.Errorf("at the limit: %s", got)
	}
	long := SocketPath(edge + "d")
	if want := filepath.Join(temp, fmt.Sprintf("toolgate-%d", os.Getuid())); filepath.Dir(long) != want {
		t.Fatalf("beyond the limit: %s", long)
	}
	if other := SocketPath(edge + "e"); other == long {
		t.Errorf("two folders share %s", other)
	}
	// What the messages say fits, does.
	root := "/" + strings.Repeat("d", MaxPath-1)
	t.Setenv("TOOLGATE_STATE", root)
	if s, err := Find("x.json"); err != nil || filepath.Dir(s.Socket) != s.Path || len(s.Socket) != MaxSocketPath {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSocketDir(t *testing.T) {
	if runtime.GOOS == "windows" {
		return
	}
	us := os.Getuid()
	tests := []struct {
		name string
		make func(dir string) error
		uid  int
		want string // in the error; empty for none
	}{
		{"absent", func(string) error { return nil }, us, ""},
		{"ours", func(dir string) error { return os.Mkdir(dir, 0o700) }, us, ""},
		{"another's", func(dir string) error { return os.Mkdir(dir, 0o700) }, us + 1, "belongs to another user"},
		{"open to others", func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o711)) }, us, "has the mode 0711"},
		{"not open to us", func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o500)) }, us, "has the mode 0500"},
		{"a link to ours", func(dir string) error { return errors.Join(os.Mkdir(dir+".x", 0o700), os.Symlink(dir+".x", dir)) }, us, "is a link"},
		{"a link to nothing", func(dir string) error { return os.Symlink(dir+".y", dir) }, us, "is a link"},
		{"a file", func(dir string) error { return os.WriteFile(dir, nil, 0o700) }, us, "is not a folder"},
	}
	for _, tt := range tests {
		dir := filepath.Join(t.TempDir(), "short")
		if err := tt.make(dir); err != nil {
			t.Fatal(err)
		}
		err := MakeSocketDir(dir, tt.uid)
		if (err == nil) != (tt.want == "") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err == nil {
			if got := modeOf(t, dir); got != 0o700 {
				t.Errorf("%s: mode %v", tt.name, got)
			}
			continue
		}
		for _, part := range []string{dir, tt.want, "remove it", "TOOLGATE_STATE", fmt.Sprint(MaxPath)} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", tt.name, err, part)
			}
		}
	}
	if err := MakeSocketDir(filepath.Join(t.TempDir(), "no", "short"), us); err == nil || !strings.Contains(err.Error(), "TOOLGATE_STATE") {
		t.Errorf("no place for it: %v", err)
	}
}

func TestKeyring(t *testing.T) {
	s := &Dir{Path: t.TempDir()}
	own, err := s.Keyring(nil)
	if err != nil {
		t.Fatal(err)
	}
	mac := own.MAC("test", []byte("x"))
	again, err := s.Keyring(nil)
	if err != nil || !again.Verify("test", []byte("x"), mac) {
		t.Errorf("the generated key is another one the next time: %v", err)
	}
	other, err := (&Dir{Path: t.TempDir()}).Keyring(nil)
	if err != nil || other.Verify("test", []byte("x"), mac) {
		t.Errorf("two state folders have the same key, or %v", err)
	}

	file := filepath.Join(s.Path, "mine")
	if err := os.WriteFile(file, []byte(strings.Repeat("ab", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SEAL_KEY", strings.Repeat("cd", 32))
	t.Setenv("SHORT_KEY", "abc")
	both, err := s.Keyring([]seal.KeySettings{{ID: "new", Env: "SEAL_KEY"}, {ID: "old", File: file}})
	if err != nil {
		t.Fatal(err)
	}
	old, err := s.Keyring([]seal.KeySettings{{ID: "old", File: file}})
	if err != nil {
		t.Fatal(err)
	}
	if !both.Verify("test", []byte("x"), old.MAC("test", []byte("x"))) {
		t.Error("the older key verifies nothing")
	}
	if old.Verify("test", []byte("x"), both.MAC("test", []byte("x"))) {
		t.Error("the older key signs")
	}
	for name, keys := range map[string][]seal.KeySettings{
		"the key a":   {{ID: "a", Env: "SHORT_KEY"}},
		"the key b":   {{ID: "b", Env: "UNSET_KEY"}},
		"the key c":   {{ID: "c", File: filepath.Join(s.Path, "absent")}},
		"used twice":  {{ID: "d", File: file}, {ID: "d", Env: "SEAL_KEY"}},
		"must have 1": {{ID: "", File: file}},
	} {
		if k, err := s.Keyring(keys); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v", name, k != nil, err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.Path, "seal.key"), []byte("not base64!\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Keyring(nil); err == nil || !strings.Contains(err.Error(), "seal.key is damaged") {
		t.Errorf("a damaged key: %v", err)
	}
}

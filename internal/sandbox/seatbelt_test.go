package sandbox

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateProfiles = flag.Bool("update", false, "write the profiles of macOS")

// The profiles of macOS are compared with what was reviewed: these tests do not run there.
func TestSeatbelt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy        Policy
		program, temp string
	}{
		"empty": {Policy{}, "/opt/server/bin/server", "/private/tmp/toolgate-sandbox-1"},
		"granted": {
			Policy{Read: []string{"/Users/ada/data", `/Users/ada/a "b" \c`}, Write: []string{"/Users/ada/out"}, Run: []string{"/usr/bin", "/bin"}},
			"/usr/bin/env", "/private/tmp/toolgate-sandbox-1",
		},
		"own":       {Policy{Temp: true, TempRun: true}, "/opt/server/bin/server", "/private/tmp/toolgate-sandbox-1"},
		"online":    {Policy{Network: FullNetwork}, "/opt/server/bin/server", ""},
		"listening": {Policy{Listen: true, Write: []string{"/private/tmp/sockets"}}, "/opt/plugin", ""},
	} {
		got := seatbelt(c.policy, c.program, c.temp)
		path := filepath.Join("testdata", "seatbelt", name+".sb")
		if *updateProfiles {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a folder of the source
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // a file of the source
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if balance(got) != 0 || !strings.HasPrefix(got, "(version 1)\n(deny default)\n") {
			t.Errorf("%s is not a profile that denies by default:\n%s", name, got)
		}
		if online := strings.Contains(got, "network-outbound"); online != (c.policy.Network == FullNetwork) {
			t.Errorf("%s: network %t", name, online)
		}
		if strings.Contains(got, "allow file-write*") != (c.temp != "" || c.policy.Write != nil) {
			t.Errorf("%s: what it writes\n%s", name, got)
		}
	}
}

// balance counts brackets outside of texts.
func balance(profile string) int {
	open, within, escaped := 0, false, false
	for _, c := range profile {
		switch {
		case escaped:
			escaped = false
		case within && c == '\\':
			escaped = true
		case c == '"':
			within = !within
		case within:
		case c == '(':
			open++
		case c == ')':
			open--
		}
	}
	return open
}

// No path ends the text that it stands in.
func FuzzSeatbeltQuote(f *testing.F) {
	for _, path := range []string{`/a`, `/a"`, `/a\`, `/a\"(allow default)`, "/a\nb", `/") (allow default) ("`} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		profile := seatbelt(Policy{Read: []string{path}}, "/program", "")
		plain := seatbelt(Policy{Read: []string{"/x"}}, "/program", "")
		if balance(profile) != 0 || outside(profile) != outside(plain) {
			t.Errorf("%q changes the profile:\n%s", path, profile)
		}
	})
}

// outside is a profile without its texts.
func outside(profile string) string {
	var out strings.Builder
	within, escaped := false, false
	for _, c := range profile {
		switch {
		case escaped:
			escaped = false
		case within && c == '\\':
			escaped = true
		case c == '"':
			within = !within
		case !within:
			out.WriteRune(c)
		}
	}
	return out.String()
}

func TestRealPolicy(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip("this system makes no links here: ", err)
	}
	got, err := realPolicy(Policy{Read: []string{link}})
	if err != nil || got.Read[0] != dir {
		t.Errorf("%+v %v", got, err)
	}
	for _, p := range []Policy{{Read: []string{filepath.Join(dir, "none")}}, {Write: []string{"/"}}} {
		if _, err := realPolicy(p); err == nil {
			t.Errorf("%+v: no error", p)
		}
	}
}

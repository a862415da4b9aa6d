package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/identity"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/proxy/auth"
)

func TestGuardKey(t *testing.T) {
	s := &statedir.Dir{Path: t.TempDir()}
	c := &config.Config{}
	for _, address := range []string{"", "127.0.0.1:7777", "[::1]:7777", "localhost:7777"} {
		c.Toolgate.Listen.HTTP = address
		if sum, fresh, err := guardKey(c, s); sum != "" || fresh != "" || err != nil {
			t.Errorf("%q: a key, or %v", address, err)
		}
	}
	for _, address := range []string{"0.0.0.0:0", ":7777", "[::]:7777", "192.0.2.1:7777", "nonsense"} {
		c.Toolgate.Listen.HTTP = address
		if sum, fresh, err := guardKey(c, s); sum == "" || fresh == "" || err != nil {
			t.Errorf("%q: no key, or %v", address, err)
		}
	}
	if entries, err := os.ReadDir(s.Path); err != nil || len(entries) != 0 {
		t.Errorf("a key that nobody was shown is kept: %v, %v", entries, err)
	}
	sum, fresh, err := guardKey(c, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Create(guardKeyFile, sum); err != nil {
		t.Fatal(err)
	}
	keys, err := identity.NewKeys(&c.Toolgate, sum)
	if err != nil || keys.Lookup(fresh) == nil {
		t.Errorf("the key does not fit its hash: %v", err)
	}
	again, none, err := guardKey(c, s)
	if diff := cmp.Diff([]any{sum, "", nil}, []any{again, none, err}); diff != "" {
		t.Errorf("the next start (-want +got):\n%s", diff)
	}
	for _, damaged := range []string{"", "\n", "abc", sum[:62], sum + sum} {
		if err := os.WriteFile(filepath.Join(s.Path, guardKeyFile), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if sum, fresh, err := guardKey(c, s); err == nil || sum != "" || fresh != "" {
			t.Errorf("damaged to %q: served with %q", damaged, sum)
		}
	}
	c.Toolgate.Auth.Keys = []auth.Key{{ID: "a"}}
	if sum, _, err := guardKey(c, s); sum != "" || err != nil {
		t.Errorf("with configured keys: %q, %v", sum, err)
	}
}

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

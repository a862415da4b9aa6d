//go:build !windows

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/envfile"
)

// Files that never end, that are huge or that are elsewhere end no command, and are
// as they were.
func TestClientFilesThatAreNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(path string) error
		says string
	}{
		"pipe":          {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "regular file"},
		"device":        {func(path string) error { return os.Symlink("/dev/zero", path) }, "regular file"},
		"folder":        {func(path string) error { return os.Mkdir(path, 0o700) }, "regular file"},
		"loop":          {func(path string) error { return os.Symlink(path, path) }, "too many"},
		"link to none":  {func(path string) error { return os.Symlink(path+".gone", path) }, "is a link to"},
		"larger than 4": {func(path string) error { return os.WriteFile(path, make([]byte, 5<<20), 0o600) }, "larger"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.env["HOME"] = h.path("person")
			h.write(t, servers{"a": fake()}, nil)
			path := h.path("person/.cursor/mcp.json")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(path)
			for _, args := range [][]string{{"connect", "cursor", h.file}, {"disconnect", "cursor"}} {
				o := h.run(t, args...)
				if o.code != exitConfig || !strings.Contains(o.stderr, c.says) || name != "device" && !strings.Contains(o.stderr, path) {
					t.Errorf("%v: %+v", args, o)
				}
			}
			if o := h.run(t, "doctor", "--config", h.file); o.code != exitOK && o.code != exitConfig {
				t.Errorf("%+v", o)
			}
			after, err := os.Lstat(path)
			if err != nil || after.Mode() != before.Mode() || after.Size() != before.Size() {
				t.Errorf("it was %v and is %v %v", before, after, err)
			}
		})
	}
}

// Credentials stand in more places than variables and headers, and what stands beside
// them is none.
func TestImportFindsCredentials(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	delete(h.env, "TOOLGATE_LISTEN_HTTP")
	h.env["HOME"] = h.path("person")
	path := h.keep(t, "mcp.json", `{"mcpServers":{
		"a":{"url":"https://me:s3cret-password@127.0.0.1:1/s/ghp_abcdefghijklmnopqrstuvwxyz0123456789/mcp?x=1"},
		"b":{"command":"true","args":["--header","Authorization: Bearer s3cret-bearer","-H","X-Api-Key:s3cret-key","--header=Cookie: s3cret-cookie","--header","Accept: text/plain"]},
		"c":{"command":"true","args":["--api-key=s3cret-joined","server.js","--token","--verbose","--db","postgres://me:s3cret-db@127.0.0.1:1/x"]}}}`, 0o600)
	h.file = h.path("toolgate.yaml")
	h.imports(t, path, "--write")
	text := h.text(t, h.file)
	if strings.Contains(text, "s3cret") || strings.Contains(text, "ghp_") {
		t.Errorf("a credential is in the file:\n%s", text)
	}
	kept, err := envfile.Read(h.path("toolgate.env"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(h.file, config.Options{LookupEnv: func(name string) (string, bool) { v, ok := kept[name]; return v, ok }})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := c.Server("a")
	if want := "https://me:s3cret-password@127.0.0.1:1/s/ghp_abcdefghijklmnopqrstuvwxyz0123456789/mcp?x=1"; a.URL != want {
		t.Errorf("the URL has become %s", a.URL)
	}
	for name, want := range map[string][]string{
		"b": {"--header", "Authorization: Bearer s3cret-bearer", "-H", "X-Api-Key:s3cret-key", "--header=Cookie: s3cret-cookie", "--header", "Accept: text/plain"},
		"c": {"--api-key=s3cret-joined", "server.js", "--token", "--verbose", "--db", "postgres://me:s3cret-db@127.0.0.1:1/x"},
	} {
		s, _ := c.Server(name)
		if diff := cmp.Diff(want, s.Args); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, plain := range []string{"server.js", "--verbose", "Accept: text/plain"} {
		if !strings.Contains(text, plain) {
			t.Errorf("%q is not a credential:\n%s", plain, text)
		}
	}
	want := []string{"A_PASSWORD", "A_SECRET", "B_TOKEN", "B_X_API_KEY", "B_COOKIE", "C_API_KEY", "C_PASSWORD"}
	for _, name := range want {
		if kept[name] == "" {
			t.Errorf("%s is not among %d variables:\n%s", name, len(kept), text)
		}
	}
}

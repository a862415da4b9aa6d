//go:build !windows

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/fakeserver"
	"github.com/toolgate/toolgate/internal/testwait"
)

// TestSecretCommand: secrets come from stdin alone, and only their names are shown.
func TestSecretCommand(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const value = "canary-of-the-secret-command"
	for _, tt := range []struct {
		in   string
		args []string
		code int
		want string // in what is printed
	}{
		{"", []string{"ls"}, exitOK, "note: no secrets are kept yet; `toolgate secret set NAME` keeps one\n"},
		{value + "\n", []string{"set", "TOKEN"}, exitOK, "TOKEN is in the sealed file"},
		{value + "\r\n", []string{"set", "other.token-2"}, exitOK, "${keyring:other.token-2}"},
		{"", []string{"ls"}, exitOK, "TOKEN\nother.token-2\n"},
		{"", []string{"set", "TOKEN"}, exitUsage, "is empty, so nothing was changed"},
		{"\n", []string{"set", "TOKEN"}, exitUsage, "is empty, so nothing was changed"},
		{strings.Repeat("x", 64<<10+1), []string{"set", "TOKEN"}, exitUsage, "more than 65536 bytes"},
		{"a\x00b", []string{"set", "TOKEN"}, exitConfig, "NUL"},
		{"", []string{"set", "TOKEN=" + value}, exitUsage, "replace that secret where it comes from"},
		{"", []string{"set", "TOKEN", value}, exitUsage, "replace that secret where it comes from"},
		{"", []string{"set"}, exitUsage, "takes one name"},
		{"x", []string{"set", "a b\x1b[2J"}, exitUsage, "cannot take"},
		{"x", []string{"set", "--", "-x"}, exitUsage, "cannot take"},
		{"", []string{"rm", "../TOKEN"}, exitUsage, "cannot take"},
		{"", []string{"rm", "NOPE"}, exitUsage, "there is no secret NOPE"},
		{"", []string{"rm", "other.token-2"}, exitOK, "other.token-2 is forgotten"},
		{"", []string{"ls"}, exitOK, "TOKEN\n"},
	} {
		o := h.runWith(t, tt.in, append([]string{"secret"}, tt.args...)...)
		out := o.stdout + o.stderr
		if o.code != tt.code || !strings.Contains(out, tt.want) || tt.want == "" && out != "" {
			t.Errorf("%q: exit code %d: %s", tt.args, o.code, out)
		}
		if strings.Contains(out, value) || strings.Contains(out, "\x1b") {
			t.Errorf("%q shows it: %q", tt.args, out)
		}
	}
	data := h.text(t, h.path("state/secrets.json"))
	if strings.Contains(data, value) || !strings.Contains(data, `"TOKEN"`) {
		t.Errorf("the file is %s", data)
	}
	if err := os.Chmod(h.path("state/secrets.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	if o := h.run(t, "secret", "ls"); o.code != exitConfig || !strings.Contains(o.stderr, "run `chmod 600 ") {
		t.Errorf("readable by others: %+v", o)
	}
	h.env["TOOLGATE_KEYRING"] = "none"
	if o := h.run(t, "secret", "ls"); o.code != exitConfig || !strings.Contains(o.stderr, "write auto, system or file") {
		t.Errorf("an unknown choice: %+v", o)
	}
}

// Commands that set secrets at once lose none.
func TestConcurrentSecretCommands(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	var want strings.Builder
	var wg sync.WaitGroup
	for i := range 6 {
		fmt.Fprintf(&want, "NAME_%d\n", i)
		wg.Go(func() {
			if o := h.runWith(t, "value", "secret", "set", fmt.Sprint("NAME_", i)); o.code != exitOK {
				t.Errorf("%+v", o)
			}
		})
	}
	wg.Wait()
	if got := h.ok(t, "secret", "ls"); got != want.String() {
		t.Errorf("there are\n%s", got)
	}
}

// TestKeyringOfAGateway: a secret that is not set refuses its server alone, and says what to
// type. Once it is set, a reload starts the server. Nobody is shown the secret.
func TestKeyringOfAGateway(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const value = "canary-of-the-key-ring"
	server := map[string]any{
		"command": "sh", "args": []string{"-c", `echo "flag $1, plain $HARMLESS" >&2; exec "$0" ` + fakeserver.Command + ` one`, os.Args[0], "${keyring:FLAG}"},
		"env": map[string]string{"HARMLESS": "${keyring:PLAIN_NAME}"},
	}
	h.write(t, servers{"a": fake("one"), "b": server}, nil)
	check := h.run(t, "validate", h.file)
	if check.code != exitConfig || !strings.Contains(check.stdout, h.file+":1: mcpServers.b.args: the secret FLAG is not set; run `toolgate secret set FLAG`") {
		t.Errorf("validate: %+v", check)
	}
	h.up(t)
	if got := h.servers(t); got["a"].State != "ready" || !strings.Contains(got["b"].Reason, "toolgate secret set") {
		t.Errorf("before: %+v", got)
	}
	for _, name := range []string{"FLAG", "PLAIN_NAME"} {
		if o := h.runWith(t, value+"-"+name+"\n", "secret", "set", name); o.code != exitOK {
			t.Fatalf("%+v", o)
		}
	}
	h.ok(t, "reload", h.file)
	testwait.Until(t, patience, "b is ready", func() bool { return h.servers(t)["b"].State == "ready" })
	if got := h.ok(t, "logs", "b", "--file", h.file); strings.Count(got, "[redacted") != 2 {
		t.Errorf("logs: %s", got)
	}
	for _, args := range [][]string{
		{"config", "show", "--file", h.file, "-o", "json"},
		{"validate", h.file, "-o", "json"},
		{"ls", h.file, "-o", "json"},
		{"status", h.file},
		{"doctor", "--file", h.file},
		{"logs", "b", "--file", h.file},
	} {
		o := h.run(t, args...)
		if strings.Contains(o.stdout+o.stderr, value) {
			t.Errorf("toolgate %v shows it: %s%s", args, o.stdout, o.stderr)
		}
	}
}

// TestImportOfTwins: the same program in several clients is one server, unless all are
// wanted.
func TestImportOfTwins(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-of-twins<&>"
	cursor := `{"mcpServers":{
		"memory":{"command":"true","args":["-m"],"env":{"API_TOKEN":"` + secret + `"}},
		"off":{"command":"true","args":["off"],"disabled":true},
		"gh":{"url":"http://127.0.0.1:1/mcp","headers":{"Authorization":"Bearer ` + secret + `"}},
		"own":{"command":"true","args":["own"]},"own-again":{"command":"true","args":["own"]}}}`
	gemini := `{"mcpServers":{
		"mem":{"command":"true","args":["-m"],"timeout":5000,"trust":true,"env":{"API_TOKEN":"` + secret + `"}},
		"memory":{"command":"true","args":["-m"],"env":{"API_TOKEN":"` + secret + `-of-somebody-else"}},
		"on":{"command":"true","args":["off"]},
		"github":{"httpUrl":"http://127.0.0.1:1/mcp","headers":{"authorization":"Bearer ` + secret + `"}},
		"here":{"command":"true","args":["-m"],"cwd":"/tmp","env":{"API_TOKEN":"` + secret + `"}},
		"few":{"command":"true","args":["-m"],"includeTools":["x"],"env":{"API_TOKEN":"` + secret + `"}}}}`
	for _, tt := range []struct {
		name string
		args []string
		want map[string]string
	}{
		{"once", nil, map[string]string{
			"cursor memory": "new", "cursor off": "new", "cursor gh": "new", "cursor own": "new", "cursor own-again": "new",
			"gemini mem":           "left out, same program as memory; --all takes it",
			"gemini memory-gemini": "new, under another name, another server is called memory",
			"gemini on":            "left out, same program as off; --all takes it",
			"gemini github":        "left out, same program as gh; --all takes it",
			"gemini here":          "new", "gemini few": "new",
		}},
		{"in the key ring", []string{"--secrets"}, map[string]string{
			"cursor memory": "new", "cursor off": "new", "cursor gh": "new", "cursor own": "new", "cursor own-again": "new",
			"gemini mem":           "left out, same program as memory; --all takes it",
			"gemini memory-gemini": "new, under another name, another server is called memory",
			"gemini on":            "left out, same program as off; --all takes it",
			"gemini github":        "left out, same program as gh; --all takes it",
			"gemini here":          "new", "gemini few": "new",
		}},
		{"all", []string{"--all"}, map[string]string{
			"cursor memory": "new", "cursor off": "new", "cursor gh": "new", "cursor own": "new", "cursor own-again": "new",
			"gemini mem":           "new",
			"gemini memory-gemini": "new, under another name, another server is called memory",
			"gemini on":            "new", "gemini github": "new", "gemini here": "new", "gemini few": "new",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			delete(h.env, "TOOLGATE_LISTEN_HTTP")
			h.env["HOME"] = h.path("person")
			h.keep(t, "person/.cursor/mcp.json", cursor, 0o600)
			h.keep(t, "person/.gemini/settings.json", gemini, 0o600)
			h.file = h.path("toolgate.yaml")
			got := map[string]string{}
			for _, s := range h.imports(t, append([]string{"--write"}, tt.args...)...).Servers {
				got[s.Client+" "+s.Name] = strings.TrimSuffix(s.Action+", "+s.Reason, ", ")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			text := h.text(t, h.file)
			if strings.Contains(text, secret) {
				t.Errorf("a credential is in the file:\n%s", text)
			}
			c, err := config.Load(h.file, config.Options{Raw: true})
			if err != nil {
				t.Fatal(err)
			}
			// A server that one client starts and another one does not is started.
			if off, _ := c.Server("off"); off.Disabled != (tt.name == "all") {
				t.Errorf("off is disabled: %t", off.Disabled)
			}
			if few, _ := c.Server("few"); !slices.Equal(few.Include, []string{"x"}) {
				t.Errorf("few has the tools %q", few.Include)
			}
			// Nothing is new the second time, whatever it is called now.
			for _, s := range h.imports(t, append([]string{"--write"}, tt.args...)...).Servers {
				if s.Action == importNew || s.Action == importRename {
					t.Errorf("again: %+v", s)
				}
			}
			if h.text(t, h.file) != text {
				t.Error("the second import has changed the file")
			}
		})
	}
}

// TestImportIntoTheKeyring: credentials go where they are wanted, under names that are free.
func TestImportIntoTheKeyring(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	delete(h.env, "TOOLGATE_LISTEN_HTTP")
	const secret = "s3cr3t-of-the-import"
	h.env["HOME"] = h.path("person")
	h.keep(t, "person/.cursor/mcp.json", `{"mcpServers":{
		"gh":{"url":"http://127.0.0.1:1/mcp?api_key=`+secret+`-query","headers":{"Authorization":"Bearer `+secret+`"}},
		"fs":{"command":"true","args":["--api-key=`+secret+`-joined"],"env":{"API_TOKEN":"`+secret+`-env","PLAIN":"yes"}}}}`, 0o600)
	h.file = h.path("toolgate.yaml")
	for name, value := range map[string]string{"API_TOKEN": "taken", "GH_TOKEN": secret} {
		if o := h.runWith(t, value, "secret", "set", name); o.code != exitOK {
			t.Fatalf("%+v", o)
		}
	}
	before := h.text(t, h.path("state/secrets.json"))
	if plan := h.imports(t, "--secrets"); plan.Written || h.text(t, h.path("state/secrets.json")) != before {
		t.Error("written without --write")
	}
	var done struct {
		Variables, Keyring []string
		Written            bool
	}
	if err := json.Unmarshal([]byte(h.ok(t, "import", "--write", "--secrets", "-o", "json")), &done); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"FS_API_TOKEN", "FS_API_KEY", "GH_API_KEY"}, done.Keyring); diff != "" || len(done.Variables) != 0 || !done.Written {
		t.Errorf("%+v (-want +got):\n%s", done, diff)
	}
	if _, err := os.Stat(h.path("toolgate.env")); err == nil {
		t.Error("there is an .env file")
	}
	text := h.text(t, h.file)
	for _, want := range []string{`"Bearer ${keyring:GH_TOKEN}"`, `?api_key=${keyring:GH_API_KEY}`, `--api-key=${keyring:FS_API_KEY}`, `API_TOKEN: "${keyring:FS_API_TOKEN}"`, "PLAIN:"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	if got := h.ok(t, "validate", "-o", "json"); strings.Contains(got, "refused") {
		t.Error(got)
	}
	if again := h.imports(t, "--write"); again.Written {
		t.Errorf("again: %+v", again)
	}
	// A key that is gone is said before anything is written.
	if err := os.Remove(h.path("state/secrets.key")); err != nil {
		t.Fatal(err)
	}
	h.keep(t, "person/.gemini/settings.json", `{"mcpServers":{"other":{"command":"true","env":{"API_TOKEN":"`+secret+`-other"}}}}`, 0o600)
	if o := h.run(t, "import", "--write", "--secrets"); o.code != exitConfig || !strings.Contains(o.stderr, "is gone; restore it") || h.text(t, h.file) != text {
		t.Errorf("without its key: %+v", o)
	}
}

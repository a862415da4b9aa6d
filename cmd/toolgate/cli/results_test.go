//go:build !windows

package cli

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/result"
)

// parsed is a configuration of a text.
func parsed(t *testing.T, text string, env map[string]string) *config.Config {
	t.Helper()
	h := newHome(t)
	h.writeText(t, text)
	c, err := config.Load(h.file, config.Options{LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestResultRules: what is said for a tool counts before its server's, and that
// before everyone's; values and patterns add up.
func TestResultRules(t *testing.T) {
	t.Parallel()
	c := parsed(t, `
mcpServers:
  a: { command: x, env: { A_TOKEN: "token-of-a1", MODE: production } }
  b: { command: x }
toolgate:
  limits: { redact: 1MiB }
  results: { validate_output: warn, max_bytes: 10KiB, redact: { secrets: true, patterns: [{ name: all, match: "ALL-[0-9]" }] } }
  servers:
    a:
      results: { larger: keep, redact: { tokens: true, values: ["value-of-a1"] } }
      tools:
        loud: { results: { validate_output: enforce, max_bytes: 20KiB, larger: refuse, redact: { secrets: false, patterns: [{ name: own, match: "OWN-[0-9]" }] } } }
        plain: { cost: 2 }
`, nil)
	made, err := build.NewMounts(c, c.Servers)
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]result.Rules{}
	for i := range c.Servers {
		rules[c.Servers[i].Key] = made[i].Results
		for name, shape := range made[i].Tools {
			if shape.Rules != nil {
				rules[c.Servers[i].Key+"/"+name] = *shape.Rules
			}
		}
	}
	const text = "token-of-a1 value-of-a1 ALL-1 OWN-1 production"
	jwt := "eyJhbGci" + strings.Repeat("O", 9) + ".eyJzdWIi" + ".c2ln"
	type shown struct {
		Output   result.OutputMode
		Larger   result.LargerMode
		MaxBytes int
		Redacted string
	}
	got := map[string]shown{}
	for name, r := range rules {
		clean, _, _ := r.Redact.Filter.Text(text+" "+jwt, time.Now().Add(time.Hour))
		got[name] = shown{r.Output, r.Larger, r.MaxBytes, clean}
		if r.Redact.RedactBytes != 1<<20 {
			t.Errorf("%s looks through %d bytes", name, r.Redact.RedactBytes)
		}
	}
	want := map[string]shown{
		"a":      {result.OutputWarn, result.KeepLarger, 10 << 10, "[redacted: secret] [redacted: secret] [redacted: all] OWN-1 production [redacted: jwt]"},
		"a/loud": {result.OutputEnforce, result.RefuseLarger, 20 << 10, "token-of-a1 [redacted: secret] [redacted: all] [redacted: own] production [redacted: jwt]"},
		"b":      {result.OutputWarn, result.TruncateLarger, 10 << 10, "[redacted: secret] value-of-a1 [redacted: all] OWN-1 production " + jwt},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	off, err := build.NewMounts(parsed(t, "mcpServers: { a: { command: x } }", nil), []config.Server{{Key: "a"}})
	if err != nil || off[0].Results.Redact.Filter != nil || off[0].Results.Output != result.OutputUnchecked || off[0].Results.MaxBytes != 0 {
		t.Errorf("nothing is written, and it is %+v, %v", off[0].Results, err)
	}
}

// TestKnownSecrets: which values of a file nobody is to read.
func TestKnownSecrets(t *testing.T) {
	t.Parallel()
	c := parsed(t, `
mcpServers:
  a: { command: x, env: { API_KEY: key-of-a, GH_PAT: pat-of-a, DB_PASS: pass-of-a, CACHE_URL: "redis://:cache-of-a@x", HOME_DIR: /home/me, DEBUG: "1" } }
  b: { url: "https://me:pass%2Bword@x.example/?api_key=in-the-url&page=long-page", headers: { Authorization: "Bearer of-b", X-Own: own-of-b, Accept: text/html } }
toolgate:
  store: postgres://u:store-password@db.example/x
  servers:
    a: { env_inherit: [MY_SECRET, MY_LANG] }
    b: { auth: { mode: client_credentials, issuer: "https://i.example", client: { id: x, secret: client-secret } } }
  tools:
    - { name: t, type: http, url: "https://t.example", headers: { X-Key: header-of-t, Accept: text/plain }, query: { q: query-of-t } }
    - { name: u, type: command, sandbox: auto, args: [echo], env: { MY_TOKEN: env-of-u, MODE: production } }
  spicedb: { endpoint: "localhost:1", token: spice-token }
`, nil)
	env := map[string]string{"MY_SECRET": "inherited", "MY_LANG": "inherited-too", "OTHER_SECRET": "not-ours"}
	got := build.KnownSecrets(c, c.Servers, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	want := []string{":cache-of-a", "Bearer of-b", "cache-of-a", "client-secret", "env-of-u", "header-of-t", "in-the-url", "inherited", "key-of-a", "me:pass+word", "own-of-b", "pass%2Bword", "pass+word", "pass-of-a", "pat-of-a", "query-of-t", "spice-token", "store-password", "u:store-password"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
}

// TestResultsOfTheProgram runs the real one: secrets are taken out, a large
// result is kept for who called, and rules change only when a person reloads.
func TestResultsOfTheProgram(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	server := fake()
	server["env"] = map[string]string{"FAKE_TOKEN": "the-token-of-the-fake-server"}
	rules := func(redact map[string]any) map[string]any {
		return map[string]any{"results": map[string]any{"redact": redact, "max_bytes": "4KiB", "larger": "keep"}}
	}
	h.write(t, servers{"s": server}, rules(map[string]any{"secrets": true, "tokens": true}))
	p, url := h.up(t)
	client := newClient(t)
	echo := func(arguments map[string]string) string {
		t.Helper()
		raw, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		_, got := post(t, client, url, "", mcp.MethodToolsCall, "s__echo", `"name":"s__echo","arguments":`+string(raw)+`,`)
		return string(got)
	}
	github := "ghp_" + strings.Repeat("aB3d", 9)
	got := echo(map[string]string{"a": "the-token-of-the-fake-server", "b": github})
	if !strings.Contains(got, `[redacted: secret]`) || !strings.Contains(got, `[redacted: github_token]`) || strings.Contains(got, github) {
		t.Errorf("got %s", got)
	}
	long := strings.Repeat("a line of text\n", 1000)
	got = echo(map[string]string{"a": long, "b": github})
	uri, _ := mcp.LookupString([]byte(got), "result", "_meta", result.Key, "resource")
	if len(got) > 5<<10 || uri == "" {
		t.Fatalf("got %s", got)
	}
	_, whole := post(t, client, url, "", mcp.MethodRead, uri, `"uri":"`+uri+`",`)
	if len(whole) < len(long) || strings.Contains(string(whole), github) || !strings.Contains(string(whole), "[redacted: github_token]") {
		t.Errorf("read %.300s", whole)
	}
	if _, other := post(t, client, url, "", mcp.MethodRead, uri+"0", `"uri":"`+uri+`0",`); !strings.Contains(string(other), "Unknown resource") {
		t.Errorf("read %s", other)
	}

	h.write(t, servers{"s": server}, rules(map[string]any{"tokens": false}))
	h.ok(t, "reload", h.file)
	if got := echo(map[string]string{"b": github}); !strings.Contains(got, github) {
		t.Errorf("after a reload: %s", got)
	}
	if code := p.stop(t, syscall.SIGINT); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	entries, err := os.ReadFile(h.stateFile(t, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(entries); !strings.Contains(text, `"redacted":2`) || !strings.Contains(text, `"bytes_left_out":1`) || strings.Contains(text, github) || strings.Contains(text, "the-token") {
		t.Errorf("the audit log: %s", text)
	}
	if log := p.out.String() + p.err.String(); strings.Contains(log, github) || strings.Contains(log, "the-token") {
		t.Errorf("the log: %s", log)
	}
}

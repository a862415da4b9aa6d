package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/gate/spicedb"
)

func TestSecretsNeverLeak(t *testing.T) {
	const text = "hunter2-password"
	hidden := secret.Text(text)
	server := Server{
		Env:     map[string]secret.Text{"A": hidden},
		Headers: map[string]secret.Text{"B": hidden},
		Args:    []string{"--token", text},
		Command: text, URL: "https://x/?k=" + text,
		Secrets: []secret.Text{hidden},
	}
	settings := Toolgate{SpiceDB: spicedb.Settings{Token: hidden}}
	check := func(how, got string) {
		t.Helper()
		if strings.Contains(got, text) {
			t.Errorf("%s leaks: %s", how, got)
		}
		if !strings.Contains(got, secret.Redacted) {
			t.Errorf("%s does not say %s: %s", how, secret.Redacted, got)
		}
	}
	for name, v := range map[string]any{"server": server, "settings": settings} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		check(name+" json", string(raw))
	}
	raw, err := yaml.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	check("settings yaml", string(raw))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%e", "%U", "%c", "%z", "%10.3s"} {
		check("settings "+verb, fmt.Sprintf(verb, settings))
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
		for _, v := range []any{server, &server, []Server{server}, Config{Servers: []Server{server}}} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, text) {
				t.Errorf("%s of a %T leaks: %s", verb, v, got)
			}
		}
	}
}

// TestMessagesHoldNoSecrets puts a secret wherever a message could quote it.
func TestMessagesHoldNoSecrets(t *testing.T) {
	const text = "hunter2-password"
	opts := testOptions()
	opts.LookupEnv = func(string) (string, bool) { return text + "\r\nX: y\x00", true }
	file := `
mcpServers:
  a: { url: "https://${A}:port/", headers: { "X": "${A}", "Y": "${A}" } }
  b: { command: "${A}", args: ["${A}"], env: { T: "${A}" }, cwd: "${A}" }
  c: { url: "${A}" }
  d: { command: x, envFile: "${A}" }
`
	c, err := Parse("x.yaml", []byte(file), opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Servers {
		if s.Refused == nil {
			t.Errorf("%s is not refused", s.Key)
			continue
		}
		if strings.Contains(s.Refused.Error(), text) {
			t.Errorf("the reason repeats the secret: %v", s.Refused)
		}
	}
}

// A secret that is not set refuses the server that needs it, and no other one.
func TestKeyring(t *testing.T) {
	const text = "hunter2-password"
	opts := testOptions()
	var asked []string
	opts.LookupSecret = func(name string) (string, error) {
		asked = append(asked, name)
		if name == "GH" {
			return text, nil
		}
		return "", secret.ErrNone
	}
	c := parse(t, "x.yaml", `mcpServers:
  a: { url: "https://x.example", headers: { Authorization: "Bearer ${keyring:GH}" } }
  b: { command: x, args: ["${keyring:GH}"], env: { T: "${keyring:GH}" } }
  c: { command: x, env: { T: plain } }
  d: { command: x, env: { T: "${keyring:GH}", U: "${keyring:NOPE}" } }
  e: { command: x, env: { T: "${keyring:OFF}" }, disabled: true }
toolgate: { spicedb: { endpoint: "localhost:1", token: "${keyring:GH}" } }
`, opts)
	for _, s := range c.Servers {
		switch s.Key {
		case "d":
			if s.Refused == nil || s.Refused.Error() != "x.yaml:5: mcpServers.d.env.U: the secret NOPE is not set; run `toolgate secret set NOPE`" || len(s.Secrets)+len(s.Env) > 0 {
				t.Errorf("d: %v, %d secrets", s.Refused, len(s.Secrets))
			}
		default:
			if s.Refused != nil {
				t.Errorf("%s: %v", s.Key, s.Refused)
			}
		}
	}
	a, _ := c.Server("a")
	b, _ := c.Server("b")
	if a.Headers["Authorization"].Reveal() != "Bearer "+text || b.Args[0] != text || b.Env["T"].Reveal() != text || b.Written.Args[0] != "${keyring:GH}" {
		t.Errorf("a is %v, b is %v", secret.Reveal(a.Headers), b.Args)
	}
	for what, got := range map[string][]secret.Text{"a": a.Secrets, "b": b.Secrets[1:], "the section": c.Secrets} {
		if len(got) != 1 || got[0].Reveal() != text {
			t.Errorf("secrets of %s: %d", what, len(got))
		}
	}
	if slices.Contains(asked, "OFF") {
		t.Error("asked for a server that is switched off")
	}
	if _, err := Parse("x.yaml", []byte("toolgate: { spicedb: { endpoint: \"x:1\", token: \"${keyring:NOPE}\" } }"), opts); err == nil || !strings.Contains(err.Error(), "x.yaml:1: spicedb.token: the secret NOPE is not set; run `toolgate secret set NOPE`") {
		t.Errorf("in the section: %v", err)
	}
}

// What goes on running after a change goes on being hidden.
func TestSecretsOfAMerge(t *testing.T) {
	read := func(value string) *Config {
		opts := testOptions()
		opts.LookupSecret = func(string) (string, error) { return value, nil }
		return parse(t, "x.yaml", `mcpServers: { a: { command: x, args: ["${keyring:GH}"] } }`, opts)
	}
	merged, pending := Merge(read("old-value"), read("new-value"))
	s := merged.Servers[0]
	if len(pending) != 1 || s.Args[0] != "old-value" || len(s.Secrets) != 1 || s.Secrets[0].Reveal() != "old-value" {
		t.Errorf("%v, %q", pending, s.Args)
	}
}

// TestResultsAreShownWithoutSecrets: what is to be taken out is not printed.
func TestResultsAreShownWithoutSecrets(t *testing.T) {
	c := parse(t, "x.yaml", `toolgate: { results: { redact: { values: ["${DATABASE_URL}"] } } }`, testOptions())
	if got := c.Toolgate.Results.Redact.Values; len(got) != 1 || got[0].Reveal() != "postgres://db" {
		t.Errorf("got %q", got)
	}
	raw, err := c.Toolgate.Results.Redact.Values[0].MarshalJSON()
	if err != nil || strings.Contains(string(raw), "postgres") {
		t.Errorf("shown as %s, %v", raw, err)
	}
}

package config

import (
	"encoding/json"
	"fmt"
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

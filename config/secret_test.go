package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestSecretNeverLeaks(t *testing.T) {
	const text = "hunter2-password"
	secret := Secret(text)
	server := Server{
		Env:     map[string]Secret{"A": secret},
		Headers: map[string]Secret{"B": secret},
		Args:    []string{"--token", text},
		Command: text, URL: "https://x/?k=" + text,
	}
	settings := Toolgate{SpiceDB: SpiceDB{Token: secret}}
	check := func(how, got string) {
		t.Helper()
		if strings.Contains(got, text) {
			t.Errorf("%s leaks: %s", how, got)
		}
		if !strings.Contains(got, redacted) {
			t.Errorf("%s does not say %s: %s", how, redacted, got)
		}
	}
	values := map[string]any{
		"secret": secret, "pointer": &secret, "slice": []Secret{secret}, "map": server.Env,
		"key": map[Secret]int{secret: 1}, "any": []any{secret}, "settings": settings,
		"struct": struct{ S Secret }{secret},
	}
	for name, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%e", "%U", "%c", "%z", "%10.3s"} {
			if name == "pointer" && verb != "%v" && verb != "%+v" && verb != "%s" {
				continue // these print the address
			}
			check(name+" "+verb, fmt.Sprintf(verb, v))
		}
		if name != "key" {
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			check(name+" json", string(raw))
			raw, err = yaml.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			check(name+" yaml", string(raw))
		}
		var b bytes.Buffer
		slog.New(slog.NewTextHandler(&b, nil)).Info("x", "v", v)
		check(name+" slog text", b.String())
		b.Reset()
		if name != "key" {
			slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "v", v)
			check(name+" slog json", b.String())
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
		for _, v := range []any{server, &server, []Server{server}, Config{Servers: []Server{server}}} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, text) {
				t.Errorf("%s of a %T leaks: %s", verb, v, got)
			}
		}
	}
	raw, err := json.Marshal(server)
	if err != nil {
		t.Fatal(err)
	}
	check("server json", string(raw))
	check("error", fmt.Errorf("x: %v", secret).Error())
	if secret.Reveal() != text {
		t.Error("Reveal does not return the text")
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

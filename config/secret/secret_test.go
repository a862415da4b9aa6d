package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestName(t *testing.T) {
	for name, want := range map[string]bool{
		"A": true, "a.b-c_9": true, "_": true, "9": true, strings.Repeat("a", MaxName): true,
		"": false, "-a": false, ".a": false, "a b": false, "a/b": false, "a:b": false, "ä": false, "a\n": false, "@": false, "[": false, "{": false, "`": false,
		strings.Repeat("a", MaxName+1): false,
	} {
		if Name(name) != want {
			t.Errorf("%q is a name: %t", name, !want)
		}
	}
}

func TestTextNeverLeaks(t *testing.T) {
	const text = "hunter2-password"
	secret := Text(text)
	check := func(how, got string) {
		t.Helper()
		if strings.Contains(got, text) {
			t.Errorf("%s leaks: %s", how, got)
		}
		if !strings.Contains(got, Redacted) {
			t.Errorf("%s does not say %s: %s", how, Redacted, got)
		}
	}
	values := map[string]any{
		"secret": secret, "pointer": &secret, "slice": []Text{secret}, "map": map[string]Text{"A": secret},
		"key": map[Text]int{secret: 1}, "any": []any{secret},
		"struct": struct{ S Text }{secret},
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
	check("error", fmt.Errorf("x: %v", secret).Error())
	if secret.Reveal() != text {
		t.Error("Reveal does not return the text")
	}
}

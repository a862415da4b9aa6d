package settings

import (
	"slices"
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	for path, want := range map[string][]string{
		"listen.http":              {"listen.http\n", "type     string"},
		"toolgate.listen.http":     {"type     string"},
		"listen":                   {"Below it:", "  metrics "},
		"servers.github.auth.mode": {"values ", "oauth"},
		"auth.keys":                {"  sha256 "},
		"auth.keys[].subject":      {"type     string"},
		"budgets[].window":         {"type "},
		"limits.body":              {"default  "},
	} {
		var b strings.Builder
		if err := Explain(&b, path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for _, text := range want {
			if !strings.Contains(b.String(), text) {
				t.Errorf("%s lacks %q: %s", path, text, b.String())
			}
		}
	}
	for path, want := range map[string]string{
		"listen.htpp":      "there is no setting listen.htpp; did you mean listen.http?",
		"lisen":            "there is no setting lisen; did you mean listen?",
		"listen.http.port": "there is no setting listen.http.port; see `toolgate config explain listen.http`",
		"zzzz":             "there is no setting zzzz; see docs/configuration.md",
		"a..b":             "there is no setting a..b; see docs/configuration.md",
		".":                "there is no setting .; see docs/configuration.md",
	} {
		if err := Explain(new(strings.Builder), path); err == nil || err.Error() != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestNames(t *testing.T) {
	if got := Names("listen.h"); !slices.Equal(got, []string{"listen.hosts", "listen.http"}) {
		t.Errorf("%v", got)
	}
	if got := Names("lis"); !slices.Equal(got, []string{"listen"}) {
		t.Errorf("%v", got)
	}
	if got := Names("nothing.x"); got != nil {
		t.Errorf("%v", got)
	}
}

package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An offered server is started as the operator wrote it, with values out of the
// operator's lists and nothing else.
func TestEnabled(t *testing.T) {
	c := parse(t, "toolgate.yaml", `
mcpServers:
  git: { command: "{repo}", args: ["--repo={repo}", "{branch}", "{other}"], env: { R: "{repo}!" }, cwd: /x }
  plain: { command: x }
toolgate:
  servers:
    git: { offer: { description: d, arguments: { repo: [a, "{branch}"], branch: [main] } } }
`, testOptions())
	git, _ := c.Server("git")
	s, ok := git.Enabled("git-1", "ns", map[string]string{"repo": "{branch}", "branch": "main"})
	if !ok || s.Key != "git-1" || s.Namespace != "ns" || s.Offer != nil || s.Command != "{repo}" {
		t.Fatalf("%+v, %v", s, ok)
	}
	// A value is never looked at again for further places.
	if diff := cmp.Diff([]string{"--repo={branch}", "main", "{other}"}, s.Args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
	if got := s.Env["R"].Reveal(); got != "{branch}!" {
		t.Errorf("env %q", got)
	}
	if git.Args[0] != "--repo={repo}" || git.Env["R"].Reveal() != "{repo}!" {
		t.Errorf("the offer itself changed: %v", git.Args)
	}
	for name, args := range map[string]map[string]string{
		"none": nil, "one too few": {"repo": "a"}, "a value not listed": {"repo": "b", "branch": "main"},
		"an unknown one": {"repo": "a", "x": "main"}, "one too many": {"repo": "a", "branch": "main", "x": "y"}, "empty": {"repo": "", "branch": "main"},
	} {
		if s, ok := git.Enabled("k", "n", args); ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
	plain, _ := c.Server("plain")
	if _, ok := plain.Enabled("k", "n", nil); ok {
		t.Error("a server that is not offered was added")
	}
}

// Secrets and paths of the settings come out of the environment; everything else
// is taken as it is written.
func TestSettingsFromTheEnvironment(t *testing.T) {
	opts := testOptions()
	c := parse(t, "/x/toolgate.yaml", `
toolgate:
  spicedb: { endpoint: "localhost:50051", token: "${GITHUB_TOKEN}" }
  opa: { path: "${HOME}/policies", decision: "data.${HOME}" }
`, opts)
	if got := c.Toolgate.SpiceDB.Token.Reveal(); got != "gh-token" {
		t.Errorf("token %q", got)
	}
	if c.Toolgate.OPA.Path != "/home/ada/policies" || c.Toolgate.OPA.Decision != "data.${HOME}" {
		t.Errorf("%q, %q", c.Toolgate.OPA.Path, c.Toolgate.OPA.Decision)
	}
	_, err := Parse("toolgate.yaml", []byte(`toolgate: { spicedb: { endpoint: "localhost:50051", token: "${NOPE}" } }`), opts)
	if err == nil || !strings.Contains(err.Error(), "spicedb.token: the environment variable NOPE is not set") || !strings.Contains(err.Error(), "toolgate.yaml:1") {
		t.Errorf("%v", err)
	}
}

package clients

import (
	"errors"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config/secret"
)

func TestExpand(t *testing.T) {
	env := map[string]string{"HOME": "/home/ada", "GITHUB_TOKEN": "gh-token", "EMPTY": "", "RECURSIVE": "${GITHUB_TOKEN}"}
	x := func(c Client) *Variables {
		return &Variables{
			Client: c, Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
			Secret: func(name string) (string, error) {
				switch name {
				case "GH", "my.key-2":
					return "secret of " + name + " ${HOME}", nil
				case "LOCKED":
					return "", errors.New("the key ring is locked")
				}
				return "", secret.ErrNone
			},
			Home: "/home/ada", Workspace: "/w/proj",
		}
	}
	tests := []struct {
		client   Client
		in, want string
		err      string
	}{
		{"", "plain", "plain", ""},
		{"", "a $ b $5 $$ $", "a $ b $5 $$ $", ""},
		{"", "$HOME", "$HOME", ""},
		{"", "${HOME}/x/${HOME}", "/home/ada/x//home/ada", ""},
		{"", "$${HOME}", "$/home/ada", ""},
		{"", "${env:HOME}", "/home/ada", ""},
		{"", "${EMPTY}|", "|", ""},
		{"", "${EMPTY:-d}${NOPE:-e}${env:NOPE:-}${HOME:-f}", "de/home/ada", ""},
		{"", "${NOPE:-a:-b $x}", "a:-b $x", ""},
		{"", "${RECURSIVE}", "${GITHUB_TOKEN}", ""},
		{"", "${workspaceFolder}|${workspaceFolderBasename}|${userHome}|${/}", "/w/proj|proj|/home/ada|/", ""},
		{"", "${{ secrets.GITHUB_TOKEN }}", "gh-token", ""},
		{"", "{env:HOME}", "{env:HOME}", ""},
		{"", "${NOPE}", "", "variable NOPE is not set"},
		{"", "${env:NOPE}", "", "variable NOPE is not set"},
		{"", "${{ secrets.NOPE }}", "", "variable NOPE is not set"},
		{"", "${{ inputs.X }}", "", "is not a variable known here"},
		{"", "${{ secrets.X", "", "has no }}"},
		{"", "${keyring:GH}|${keyring:my.key-2}", "secret of GH ${HOME}|secret of my.key-2 ${HOME}", ""},
		{"", "${keyring:NOPE}", "", "the secret NOPE is not set; run `toolgate secret set NOPE`"},
		{"", "${keyring:LOCKED}", "", "the secret LOCKED cannot be read: the key ring is locked"},
		{"", "${keyring:GH:-default}", "", "is no name of a secret"},
		{"", "${keyring:}", "", "is no name of a secret"},
		{"", "${keyring:../x}", "", "is no name of a secret"},
		{"", "${keyring: GH}", "", "is no name of a secret"},
		{"", "${keyring:a;rm -rf}", "", "is no name of a secret"},
		{"", "${keyring:GH", "", "has no }"},
		{"", "${env:keyring:GH}", "", "is not a variable known here"},
		{"", "${NOPE:-${keyring:GH}}", "", "holds another variable"},
		{ClientGemini, "$HOME ${keyring:GH}", "/home/ada secret of GH ${HOME}", ""},
		{"", "${HOME", "", "has no }"},
		{"", "${}", "", "is not a variable known here"},
		{"", "${command:x}", "", "is not a variable known here"},
		{"", "${A B}", "", "is not a variable known here"},
		{"", "${NOPE:-${HOME}}", "", "holds another variable"},
		{"", "${input:x}", "", `input "x" is not defined`},
		{ClientGemini, "$HOME/$GITHUB_TOKEN.x$5$", "/home/ada/gh-token.x$5$", ""},
		{ClientGemini, "$NOPE", "", "variable NOPE is not set"},
		{ClientOpenCode, "{env:HOME}-{x}", "/home/ada-{x}", ""},
		{ClientOpenCode, "{env:NOPE}", "", "variable NOPE is not set"},
		{ClientOpenCode, "{env:HOME", "", "has no }"},
		{ClientOpenCode, "{file:/etc/passwd}", "", "is not supported"},
	}
	for _, tt := range tests {
		got, err := x(tt.client).Expand(tt.in)
		if tt.err == "" && (err != nil || got != tt.want) {
			t.Errorf("%q: got %q, %v, want %q", tt.in, got, err, tt.want)
		}
		if tt.err != "" && (err == nil || got != "" || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%q: got %q, %v, want the error %q", tt.in, got, err, tt.err)
		}
	}
}

// Secrets are remembered for whoever hides them, and are not looked up where nobody runs
// with them.
func TestSecretsOfVariables(t *testing.T) {
	asked := 0
	x := &Variables{Secret: func(name string) (string, error) { asked++; return "value of " + name, nil }}
	if _, err := x.Expand("${keyring:A} ${keyring:B}"); err != nil {
		t.Fatal(err)
	}
	if got := x.Secrets(); len(got) != 2 || got[0].Reveal() != "value of A" || got[1].Reveal() != "value of B" || x.Secrets() != nil {
		t.Errorf("secrets: %d", len(got))
	}
	x.Raw = true
	if got, err := x.Expand("a ${keyring:A}"); got != "a ${keyring:A}" || err != nil || asked != 2 {
		t.Errorf("raw: %q, %v, asked %d times", got, err, asked)
	}
	if got, err := (&Variables{}).Expand("${keyring:A}"); got != "" || !errors.Is(err, ErrUnset) {
		t.Errorf("without a key ring: %q, %v", got, err)
	}
}

func TestRefuseVariables(t *testing.T) {
	if got, err := RefuseVariables("a $ b {x}"); got != "a $ b {x}" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, text := range []string{"${HOME}", "a ${env:HOME}", "${{ secrets.X }}", "${NOPE:-d}", "${input:x}", "${keyring:X}"} {
		if got, err := RefuseVariables(text); got != "" || err == nil {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
}

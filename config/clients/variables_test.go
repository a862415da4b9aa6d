package clients

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	env := map[string]string{"HOME": "/home/ada", "GITHUB_TOKEN": "gh-token", "EMPTY": "", "RECURSIVE": "${GITHUB_TOKEN}"}
	x := func(c Client) *Variables {
		return &Variables{
			Client: c, Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
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

func TestRefuseVariables(t *testing.T) {
	if got, err := RefuseVariables("a $ b {x}"); got != "a $ b {x}" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, text := range []string{"${HOME}", "a ${env:HOME}", "${{ secrets.X }}", "${NOPE:-d}", "${input:x}"} {
		if got, err := RefuseVariables(text); got != "" || err == nil {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
}

package clients_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/upstream"
)

// read returns the servers of a file by key, without any section of toolgate's own.
func read(t *testing.T, name, text string) (*clients.File, map[string]clients.Server) {
	t.Helper()
	p := &tree.Problems{File: name}
	file := clients.Find(name, format.Read(p, name, []byte(text)))
	r := clients.Reader{File: file, Dir: "/dir", Vars: &clients.Variables{
		Client: file.Client, Inputs: file.Inputs(), Home: "/home/ada",
		Lookup: func(name string) (string, bool) { return "secret-of-" + name, name != "NOPE" },
	}}
	servers := map[string]clients.Server{}
	for _, e := range file.Entries(p) {
		servers[e.Key] = r.Read(e)
	}
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	return file, servers
}

// A field is the same whatever its client calls it.
func TestSpellings(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		client     clients.Client
	}{
		{"x.json", `{"mcpServers": {"a": {"command": "x", "args": ["y"], "env": {"T": "${T}"}, "timeout": 9000}}}`, clients.ClientOther},
		{"claude_desktop_config.json", `{"mcpServers": {"a": {"type": "stdio", "command": "x", "args": ["y"], "env": {"T": "${T}"}, "timeout": 9000}}}`, clients.ClientClaudeDesktop},
		{".gemini/settings.json", `{"mcpServers": {"a": {"command": "x", "args": ["y"], "env": {"T": "$T"}, "timeout": 9000}}}`, clients.ClientGemini},
		{"mcp.json", `{"servers": {"a": {"command": "x", "args": ["y"], "env": {"T": "${env:T}"}, "timeout": 9000}}}`, clients.ClientVSCode},
		{"settings.json", `{"context_servers": {"a": {"command": {"path": "x", "args": ["y"], "env": {"T": "${T}"}}, "timeout": 9000}}}`, clients.ClientZed},
		{"opencode.json", `{"mcp": {"a": {"type": "local", "command": ["x", "y"], "environment": {"T": "{env:T}"}, "tool_timeout_sec": 9}}}`, clients.ClientOpenCode},
		{"config.yaml", `extensions: {a: {cmd: x, args: [y], envs: {T: "${T}"}, timeout: 9}}`, clients.ClientGoose},
		{"config.yaml", `mcpServers: [{name: a, command: x, args: [y], env: {T: "${{ secrets.T }}"}, timeout: 9000}]`, clients.ClientContinue},
		{"config.toml", "[mcp_servers.a]\ncommand = \"x\"\nargs = [\"y\"]\nenv = { T = \"${T}\" }\ntool_timeout_sec = 9", clients.ClientCodex},
		{"settings.json", `{"amp.mcpServers": {"a": {"command": "x", "args": ["y"], "env": {"T": "${T}"}, "timeout": 9000}}}`, clients.ClientAmp},
	} {
		file, servers := read(t, tt.name, tt.text)
		s := servers["a"]
		if err := s.Refused.Err(); err != nil || file.Client != tt.client || s.Transport != upstream.Stdio {
			t.Errorf("%s: client %q, transport %q, %v", tt.text, file.Client, s.Transport, err)
		}
		if s.Command != "x" || !cmp.Equal(s.Args, []string{"y"}) || s.Env["T"].Reveal() != "secret-of-T" || s.Timeouts.Call != 9*time.Second {
			t.Errorf("%s: %q %q, env %q, call %s", tt.text, s.Command, s.Args, s.Env["T"].Reveal(), s.Timeouts.Call)
		}
	}
}

// What an entry does not say is left to the settings.
func TestReadSaysNoDefaults(t *testing.T) {
	_, servers := read(t, "x.json", `{"mcpServers": {"a": {"command": "npx"}}, "toolgate": {"servers": {"a": {"timeouts": {"call": "1s"}, "auth": {"mode": "oauth"}}}}}`)
	if s := servers["a"]; s.Timeouts != (upstream.Timeouts{}) || s.Auth.Mode != "" || s.EnvInherit != nil {
		t.Errorf("timeouts %v, auth %v, env %v", s.Timeouts, s.Auth.Mode, s.EnvInherit)
	}
}

// A refusal and a secret stay with their own server.
func TestReadRefusesAlone(t *testing.T) {
	_, servers := read(t, "x.json", `{"mcpServers": {
		"bad": {"command": "${NOPE}"},
		"off": {"command": "${NOPE}", "disabled": true},
		"good": {"url": "https://x/?k=${K}", "headers": {"a": "${H}"}}}}`)
	bad, off, good := servers["bad"], servers["off"], servers["good"]
	if err := bad.Refused.Err(); err == nil || err.Error() != "x.json:2: mcpServers.bad.command: the environment variable NOPE is not set; set it before starting toolgate" {
		t.Errorf("bad: %v", err)
	}
	if !off.Disabled || off.Origins["disabled"].Line != 3 {
		t.Errorf("off: disabled %v by line %d", off.Disabled, off.Origins["disabled"].Line)
	}
	if err := good.Refused.Err(); err != nil || good.URL != "https://x/?k=secret-of-K" || good.Headers["A"].Reveal() != "secret-of-H" {
		t.Errorf("good: %q, %v", good.URL, err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
		if got := fmt.Sprintf(verb, good); strings.Contains(got, "secret-of") {
			t.Errorf("%s leaks: %s", verb, got)
		}
	}
}

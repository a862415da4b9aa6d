package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/upstream"
)

func parse(t *testing.T, name, text string, opts Options) *Config {
	t.Helper()
	c, err := Parse(name, []byte(text), opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestExpandWithoutEnvironment(t *testing.T) {
	c := parse(t, "x.json", `{"mcpServers": {"a": {"command": "${HOME}", "args": ["${userHome}"]}}}`, Options{})
	if err := c.Servers[0].Refused; err == nil || !strings.Contains(err.Error(), "HOME is not set") || !strings.Contains(err.Error(), "userHome") {
		t.Errorf("refused: %v", err)
	}
}

func TestInputs(t *testing.T) {
	const file = `{
  "inputs": [{"id": "key", "type": "promptString", "password": true, "description": "Key"}, {"id": "cmd", "type": "command"}],
  "servers": {
    "a": {"command": "x", "env": {"A": "${input:key}", "B": "${input:key}"}},
    "b": {"command": "x", "args": ["${input:key}"]},
    "off": {"command": "x", "args": ["${input:key}"], "disabled": true},
    "cmd": {"command": "x", "args": ["${input:cmd}"]},
    "plain": {"command": "x"}
  }
}`
	asked := 0
	opts := Options{Input: func(id, description string, password bool) (string, error) {
		asked++
		if id != "key" || description != "Key" || !password {
			t.Errorf("asked for %q, %q, %v", id, description, password)
		}
		return "v", nil
	}}
	c := parse(t, "mcp.json", file, opts)
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	if a, _ := c.Server("a"); a.Env["B"].Reveal() != "v" {
		t.Errorf("B = %q", a.Env["B"].Reveal())
	}
	if s, _ := c.Server("cmd"); s.Refused == nil {
		t.Error("an editor command was accepted")
	}

	c = parse(t, "mcp.json", file, Options{})
	for key, refused := range map[string]bool{"a": true, "b": true, "off": false, "cmd": true, "plain": false} {
		if s, _ := c.Server(key); (s.Refused != nil) != refused {
			t.Errorf("%s refused: %v", key, s.Refused)
		}
	}
	if s, _ := c.Server("a"); !strings.Contains(s.Refused.Error(), `the input "key"`) {
		t.Errorf("the reason does not name the input: %v", s.Refused)
	}

	cancel := errors.New("cancelled")
	c = parse(t, "mcp.json", file, Options{Input: func(string, string, bool) (string, error) { return "", cancel }})
	if s, _ := c.Server("b"); !strings.Contains(fmt.Sprint(s.Refused), "cancelled") {
		t.Errorf("refused: %v", s.Refused)
	}
}

func TestTransport(t *testing.T) {
	tests := []struct {
		name, entry string
		want        upstream.Transport
		refused     string
	}{
		{"x.json", `{"command": "x"}`, upstream.Stdio, ""},
		{"x.json", `{"url": "https://x"}`, upstream.Auto, ""},
		{"x.json", `{"httpUrl": "https://x"}`, upstream.Streamable, ""},
		{"x.json", `{"serverUrl": "https://x"}`, upstream.Auto, ""},
		{"x.json", `{"type": "http", "url": "https://x"}`, upstream.Streamable, ""},
		{"x.json", `{"type": "streamable-http", "url": "https://x"}`, upstream.Streamable, ""},
		{"x.json", `{"type": "streamable_http", "url": "https://x"}`, upstream.Streamable, ""},
		{"x.json", `{"type": "streamableHttp", "url": "https://x"}`, upstream.Streamable, ""},
		{"x.json", `{"transport": "sse", "url": "https://x"}`, upstream.SSE, ""},
		{"x.json", `{"type": "sse", "command": "x", "url": "https://x"}`, upstream.SSE, ""},
		{"x.json", `{"type": "stdio", "command": "x", "url": "https://x"}`, upstream.Stdio, ""},
		{".gemini/settings.json", `{"url": "https://x"}`, upstream.SSE, ""},
		{".gemini/settings.json", `{"url": "https://x", "httpUrl": "https://y"}`, upstream.Streamable, ""},
		{".gemini/settings.json", `{"url": "https://x", "type": "http"}`, upstream.Streamable, ""},
		{"cline_mcp_settings.json", `{"url": "https://x"}`, upstream.SSE, ""},
		{"x.json", `{"url": "https://x", "autoApprove": []}`, upstream.Auto, ""},
		{"x.json", `{"command": "x", "url": "https://x"}`, "", "both a command and a url"},
		{"x.json", `{"type": "ws", "url": "wss://x"}`, "", "WebSocket"},
		{"x.json", `{"type": "carrier-pigeon", "url": "https://x"}`, "", "not a supported transport"},
		{"x.json", `{"type": 5, "url": "https://x"}`, "", "expected text"},
		{"x.json", `{"type": "stdio"}`, "", "needs a command"},
		{"x.json", `{"type": "http"}`, "", "needs a url"},
		{"x.json", `{}`, "", "neither a command nor a url"},
		{"x.json", `"npx"`, "", "expected a map"},
		{"x.json", `null`, "", "expected a map"},
		{"x.json", `{"command": ""}`, "", "command is empty"},
		{"x.json", `{"command": []}`, "", "command is empty"},
		{"x.json", `{"command": "x", "args": "y"}`, "", "expected a list"},
		{"x.json", `{"command": "x", "args": [{}]}`, "", "expected text"},
		{"x.json", `{"command": "x", "env": []}`, "", "expected a map"},
		{"x.json", `{"command": "x", "env": {"A=B": "c"}}`, "", "not a name of an environment variable"},
		{"x.json", `{"command": "x", "disabled": "no"}`, "", "expected true or false"},
		{"x.json", `{"url": ""}`, "", "the url is empty"},
		{"x.json", `{"url": "ftp://x"}`, "", "not an http or https URL"},
		{"x.json", `{"url": "https:///x"}`, "", "names no host"},
		{"x.json", `{"url": "https://x", "headers": {"A B": "c"}}`, "", "not a name of a header"},
		{"x.json", `{"url": "https://x", "headers": {"A": "c\r\nD: e"}}`, "", "line break"},
		{"x.json", `{"url": "https://x", "headers": {"host": "c"}}`, "", "set by the connection"},
		{"x.json", `{"url": "https://x", "oauth": {"clientId": "a"}}`, upstream.Auto, ""},
		{"x.json", `{"url": "https://x", "oauth": {"clientId": "a"}, "headers": {"authorization": "b"}}`, upstream.Auto, ""},
		{"x.json", `{"command": "x", "envFile": "/does/not/exist.env"}`, "", "env file cannot be used"},
	}
	for _, tt := range tests {
		c := parse(t, tt.name, `{"mcpServers": {"other": {"command": "ok"}, "a": `+tt.entry+`}}`, Options{})
		s, _ := c.Server("a")
		if tt.refused == "" {
			if s.Refused != nil || s.Transport != tt.want {
				t.Errorf("%s %s: got %q, %v, want %q", tt.name, tt.entry, s.Transport, s.Refused, tt.want)
			}
			continue
		}
		if s.Refused == nil || !strings.Contains(s.Refused.Error(), tt.refused) {
			t.Errorf("%s: refused with %v, want %q", tt.entry, s.Refused, tt.refused)
		}
		if s.Command != "" || s.Args != nil || s.Env != nil || s.URL != "" || s.Headers != nil {
			t.Errorf("%s is refused and could still be started", tt.entry)
		}
		if o, ok := c.Server("other"); !ok || o.Refused != nil {
			t.Errorf("%s broke its neighbour", tt.entry)
		}
	}
}

func TestTimeouts(t *testing.T) {
	d := func(start, list, call, hard time.Duration) upstream.Timeouts {
		return upstream.Timeouts{Start: start, List: list, Call: call, Hard: hard}
	}
	const s, m = time.Second, time.Minute
	tests := []struct {
		name, entry, settings string
		want                  upstream.Timeouts
	}{
		{"x.json", `"command": "x"`, ``, d(30*s, 10*s, 2*m, 30*m)},
		{"x.json", `"command": "C:\\Tools\\NPX.CMD"`, ``, d(60*s, 10*s, 2*m, 30*m)},
		{"x.json", `"command": "pnpm", "args": ["dlx", "x"]`, ``, d(60*s, 10*s, 2*m, 30*m)},
		{"x.json", `"command": "pnpm", "args": ["start"]`, ``, d(30*s, 10*s, 2*m, 30*m)},
		{"x.json", `"command": "x", "timeout": 90000`, ``, d(30*s, 10*s, 90*s, 30*m)},
		{"x.json", `"command": "x", "timeout": 90`, ``, d(30*s, 10*s, 90*s, 30*m)},
		{"x.json", `"command": "x", "timeout": -1`, ``, d(30*s, 10*s, 2*m, 30*m)},
		{"x.json", `"command": "x", "timeout": "soon"`, ``, d(30*s, 10*s, 2*m, 30*m)},
		{"x.json", `"command": "x", "timeout": 1e300`, ``, d(30*s, 10*s, 168*time.Hour, 168*time.Hour)},
		{"x.json", `"command": "x", "timeout": 3600000`, ``, d(30*s, 10*s, 60*m, 60*m)},
		{".mcp.json", `"command": "x", "timeout": 90000`, ``, d(30*s, 10*s, 90*s, 90*s)},
		{".mcp.json", `"command": "x", "timeout": 999`, ``, d(30*s, 10*s, 2*m, 30*m)},
		{".mcp.json", `"command": "x", "timeout": 90000`, `call: 5m`, d(30*s, 10*s, 5*m, 5*m)},
		{"mcp_settings.json", `"command": "x", "timeout": 3600`, ``, d(30*s, 10*s, 60*m, 60*m)},
		{"x.json", `"command": "x", "timeout": 90000`, `start: 1s, list: 2s, call: 3s, hard: 4s`, d(1*s, 2*s, 3*s, 4*s)},
		{"x.json", `"command": "x"`, `hard: 1m`, d(30*s, 10*s, 1*m, 1*m)},
		{"x.json", `"command": "x"`, `call: 2h`, d(30*s, 10*s, 120*m, 120*m)},
	}
	for _, tt := range tests {
		text := "mcpServers: {a: {" + tt.entry + "}}\ntoolgate: {servers: {a: {timeouts: {" + tt.settings + "}}}}\n"
		name := strings.TrimSuffix(tt.name, ".json")
		if name == "mcp_settings" || name == ".mcp" {
			text = `{"mcpServers": {"a": {` + tt.entry + `}}, "toolgate": {"servers": {"a": {"timeouts": {` + quoteSettings(tt.settings) + `}}}}}`
			name = tt.name
		} else {
			name += ".yaml"
		}
		c := parse(t, name, text, Options{})
		if diff := cmp.Diff(tt.want, c.Servers[0].Timeouts); diff != "" {
			t.Errorf("%s {%s} with {%s}:\n%s", tt.name, tt.entry, tt.settings, diff)
		}
	}
}

// quoteSettings turns "a: 1s, b: 2s" into JSON.
func quoteSettings(s string) string {
	if s == "" {
		return ""
	}
	var out []string
	for part := range strings.SplitSeq(s, ", ") {
		k, v, _ := strings.Cut(part, ": ")
		out = append(out, fmt.Sprintf("%q: %q", k, v))
	}
	return strings.Join(out, ", ")
}

func TestNamespace(t *testing.T) {
	for key, want := range map[string]string{
		"github": "github", "GitHub": "github", "Brave Search": "brave-search", "a.b/c_d": "a-b-c-d",
		"21st": "s21st", "-x": "x", "exactly-twenty-chars": "exactly-twenty-chars",
		"é": "s-jkmvk", "文件": "s-hgjs6", "modelcontextprotocol-server-a": "modelcontextpr-ez4bs",
	} {
		if got := Namespace(key); got != want || !decode.Pattern("namespace").MatchString(got) {
			t.Errorf("Namespace(%q) = %q, want %q", key, got, want)
		}
	}
	seen := map[string]string{}
	for i := range 200 {
		key := fmt.Sprintf("io.github.some-organisation/server-%d", i)
		ns := Namespace(key)
		if other, dup := seen[ns]; dup {
			t.Errorf("%q and %q both have %q", key, other, ns)
		}
		seen[ns] = key
	}
}

func TestSelf(t *testing.T) {
	const head = `toolgate: { listen: { http: "127.0.0.1:7900", public_url: "https://tools.example.com" } }` + "\nmcpServers:\n  a: "
	opts := Options{Self: []string{"/opt/tg/bin/gateway", "tg"}}
	for entry, want := range map[string]bool{
		`{ command: toolgate, args: [stdio] }`:                                           true,
		`{ command: /usr/local/bin/toolgate, args: [--config, x, stdio] }`:               true,
		`{ command: 'C:\bin\toolgate.exe', args: [up] }`:                                 true,
		`{ command: tg, args: [stdio] }`:                                                 true,
		`{ command: /opt/tg/bin/gateway, args: [stdio, f] }`:                             true,
		`{ command: go, args: [run, ./cmd/toolgate, stdio] }`:                            true,
		`{ command: go, args: [run, github.com/toolgate/toolgate/cmd/toolgate@v1, up] }`: true,
		`{ url: "http://127.0.0.1:7900/mcp" }`:                                           true,
		`{ url: "http://localhost:7900/sse" }`:                                           true,
		`{ url: "http://[::1]:7900/mcp/s/x" }`:                                           true,
		`{ url: "https://Tools.example.com/mcp/" }`:                                      true,
		`{ url: "http://localhost:7900/mcp", headers: { A: "${UNSET}" } }`:               true,
		`{ command: npx, args: [-y, mcp-remote, "http://localhost:7900/mcp"] }`:          true,
		`{ command: toolgate, args: [demo-server] }`:                                     false,
		`{ command: mytoolgate, args: [stdio] }`:                                         false,
		`{ command: go, args: [run, ./cmd/other, stdio] }`:                               false,
		`{ command: npx, args: [toolgate-tools, stdio] }`:                                false,
		`{ url: "http://127.0.0.1:7901/mcp" }`:                                           false,
		`{ url: "http://127.0.0.1:7900/other" }`:                                         false,
		`{ url: "http://example.com:7900/mcp" }`:                                         false,
	} {
		c := parse(t, "x.yaml", head+entry, opts)
		if got := len(c.Skipped) == 1 && len(c.Servers) == 0; got != want {
			t.Errorf("%s: skipped %v, servers %d", entry, c.Skipped, len(c.Servers))
		}
	}
}

func TestWorkspace(t *testing.T) {
	tests := []struct{ home, given, dir, want string }{
		{"/home/ada", "", "/home/ada/p/.vscode", "/home/ada/p"},
		{"/home/ada", "", "/home/ada/p", "/home/ada/p"},
		{"/home/ada", "", "/home/ada/.cursor", ""},
		{"/home/ada", "", "/home/ada", ""},
		{"/home/ada", "/given", "/home/ada", "/given"},
		{"/home/ada", "", "/home/ada/p/.continue/mcpServers", "/home/ada/p"},
	}
	for _, tt := range tests {
		if got := (Options{Home: tt.home, WorkspaceFolder: tt.given}).workspace(tt.dir); got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
}

// A sandbox confines what is started. For a server elsewhere it is refused, and not ignored.
func TestSandboxOfAServerElsewhere(t *testing.T) {
	t.Parallel()
	c := parse(t, "toolgate.yaml", "mcpServers:\n  far: { url: \"https://far.example.com/mcp\" }\n  near: { command: x }\n"+
		"toolgate:\n  servers: { far: { sandbox: {} }, near: { sandbox: {} } }\n", Options{})
	for i := range c.Servers {
		s := &c.Servers[i]
		if refused := s.Refused != nil && strings.Contains(s.Refused.Error(), "for servers that toolgate starts"); refused != (s.Key == "far") {
			t.Errorf("%s: %v", s.Key, s.Refused)
		}
		if s.Sandbox == nil {
			t.Errorf("%s has no sandbox", s.Key)
		}
	}
}

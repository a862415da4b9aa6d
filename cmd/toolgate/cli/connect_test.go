//go:build !windows

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
	"github.com/toolgate/toolgate/config"
	clientfiles "github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/envfile"
	"github.com/toolgate/toolgate/upstream"
)

func (h *home) text(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// former are files as people have them, by the end of their names.
var former = map[string]string{
	".json": "// mine\n{\n  \"theme\": \"dark\", // as I like it\n  \"SECTION\": {\n    \"x\": { \"command\": \"true\", \"url\": null }\n  }\n}\n",
	".yaml": "# mine\ntheme: dark   # as I like it\nSECTION:\n  x:\n    command: 'true'\n\n# the end\n",
	".toml": "# mine\ntheme = \"dark\" # as I like it\n\n[SECTION.x]\ncommand = \"true\"\n",
}

// Every client is connected in both scopes and both ways, what it starts answers,
// and what it had comes back byte for byte.
func TestConnectEveryClient(t *testing.T) {
	t.Parallel()
	for _, c := range clients.All() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			for _, f := range c.Files {
				h := newHome(t)
				h.write(t, servers{"a": fake()}, nil)
				h.env["TOOLGATE_LISTEN_HTTP"] = "127.0.0.1:7777"
				path := f.In(clients.Places{Home: h.dir, Config: h.path("config"), Project: h.dir})
				before, had := "", !c.Whole
				if had {
					section := ""
					if len(c.Section) > 0 {
						section = c.Section[0]
					}
					before = strings.ReplaceAll(former[filepath.Ext(path)], "SECTION", section)
					if filepath.Ext(path) == ".toml" {
						before = strings.ReplaceAll(before, "["+section, "["+section)
					}
					h.keep(t, strings.TrimPrefix(path, h.dir+"/"), before, 0o640)
				}
				for _, args := range [][]string{{}, {"--http"}, {"--http", "--key-env", "MY_KEY"}} {
					o := h.run(t, slices.Concat([]string{"connect", c.Name, h.file, "--scope", f.Scope}, args)...)
					if o.code != exitOK {
						if c.Remote != nil && (c.Reference != "" || len(args) < 3) || len(args) == 0 {
							t.Errorf("%s %v: %+v", f.Path, args, o)
						}
						continue
					}
					text := h.text(t, path)
					want := "stdio"
					if len(args) > 0 {
						want = "http://127.0.0.1:7777/mcp"
					}
					if !strings.Contains(text, want) || len(args) == 3 && !strings.Contains(text, "MY_KEY") {
						t.Errorf("%s %v has become\n%s", f.Path, args, text)
					}
					if had && !strings.Contains(text, "as I like it") {
						t.Errorf("%s has lost its comments:\n%s", f.Path, text)
					}
					// toolgate itself reads the entry as that client's, and knows itself in it.
					read, err := config.Load(path, config.Options{Raw: true, Self: []string{program, plain, "http://127.0.0.1:7777"}})
					if err != nil {
						t.Errorf("%s %v: %v\n%s", f.Path, args, err, text)
					} else if !slices.ContainsFunc(read.Skipped, func(s clientfiles.Skipped) bool { return s.Key == clients.Entry }) {
						t.Errorf("%s %v: not known as toolgate itself: %+v", f.Path, args, read.Servers)
					}
					if len(args) == 0 || *everything { // all entries are written over in the same way
						if again := h.ok(t, slices.Concat([]string{"connect", c.Name, h.file, "--scope", f.Scope}, args)...); !strings.Contains(again, "connected") {
							t.Errorf("again: %s", again)
						}
					}
					if got := h.ok(t, "disconnect", c.Name, "--scope", f.Scope); got == "" {
						t.Error("disconnect says nothing")
					}
					after, err := os.ReadFile(path)
					if had && (err != nil || string(after) != before) {
						t.Errorf("%s %v: disconnected (-before +after):\n%s", f.Path, args, cmp.Diff(before, string(after)))
					}
					if !had && err == nil {
						t.Errorf("%s is left: %s", f.Path, after)
					}
				}
				if left, _ := filepath.Glob(path + ".before-*"); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			}
		})
	}
}

// A client gets the view that fits it and the tools of the running gateway, or the one
// that it is told.
func TestConnectView(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"many": fake("tools=90")}, nil)
	if out := h.ok(t, "connect", "cursor", h.file); !strings.Contains(out, "its view is strict: Cursor refuses a part of JSON Schema\n") {
		t.Errorf("without a gateway: %s", out)
	}
	h.up(t)
	for _, tt := range []struct {
		client, want, says string
		args               []string
	}{
		{"cursor", `/mcp/strict/find"`, "strict/find: Cursor accepts 80 tools, and there are 90; and Cursor refuses a part of JSON Schema", []string{"--http"}},
		{"cursor", `"strict/find"`, "strict/find: Cursor accepts 80 tools, and there are 90; and Cursor refuses a part of JSON Schema", nil},
		{"cursor", `/mcp"`, "full: as --view says", []string{"--http", "--view", "full"}},
		{"cursor", `/mcp/strict/find"`, "strict/find: as --view says", []string{"--http", "--view", "strict/find"}},
		{"claude-code", `/mcp"`, "full: Claude Code shows tools to its model when that searches for them", []string{"--http"}},
		{"claude-code", `/mcp/find"`, "find: as --view says", []string{"--http", "--view", "find"}},
		{"vscode", `/mcp"`, "full: VS Code groups tools that are many, and shows a group when its model opens it", []string{"--http"}},
	} {
		c, _ := clients.Find(tt.client)
		out := h.ok(t, slices.Concat([]string{"connect", tt.client, h.file}, tt.args)...)
		path, err := c.Home(clients.Places{Home: h.dir, Config: h.path("config")}, "user")
		if err != nil {
			t.Fatal(err)
		}
		if text := h.text(t, path); !strings.Contains(text, tt.want) || !strings.Contains(out, "its view is "+tt.says+"\n") {
			t.Errorf("%s %v: %s\n%s", tt.client, tt.args, out, text)
		}
	}
	if o := h.run(t, "connect", "cursor", h.file, "--view", "half"); o.code != exitUsage || !strings.Contains(o.stderr, "write full, find,") {
		t.Errorf("%+v", o)
	}
}

// A client that is connected in another way goes back to what it had before the
// first time.
func TestConnectTwice(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, nil)
	h.env["TOOLGATE_LISTEN_HTTP"] = "127.0.0.1:7777"
	const before = "{\"mcpServers\": {\"x\": {\"command\": \"true\"}}} // mine\n"
	path := h.keep(t, ".cursor/mcp.json", before, 0o600)
	h.ok(t, "connect", "cursor", h.file)
	h.ok(t, "connect", "cursor", h.file, "--http", "--only")
	h.ok(t, "connect", "cursor", h.file)
	h.ok(t, "disconnect", "cursor")
	if got := h.text(t, path); got != before {
		t.Errorf("disconnected: %q", got)
	}
}

// What has changed since stays, and can be given up for what was there before.
func TestDisconnectAfterAChange(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, nil)
	const before = "{\"mcpServers\": {\"x\": {\"command\": \"true\"}}}\n"
	path := h.keep(t, ".cursor/mcp.json", before, 0o600)
	h.ok(t, "connect", "cursor", h.file, "--only")
	if got := h.text(t, path); strings.Contains(got, `"x"`) {
		t.Errorf("with --only: %s", got)
	}
	h.keep(t, ".cursor/mcp.json", strings.Replace(h.text(t, path), "{", `{"new": 1, `, 1), 0o600)
	h.ok(t, "disconnect", "cursor")
	if got := h.text(t, path); !strings.Contains(got, `"new"`) || strings.Contains(got, "toolgate") {
		t.Errorf("disconnected: %s", got)
	}
	h.ok(t, "disconnect", "cursor", "--restore")
	if got := h.text(t, path); got != before {
		t.Errorf("restored: %q", got)
	}
}

// What cannot be edited is left alone, and the person is told what to write.
func TestConnectByHand(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, nil)
	path := h.keep(t, ".config/goose/config.yaml", "extensions: {x: {type: stdio, cmd: y}}\n", 0o600)
	o := h.run(t, "connect", "goose", h.file)
	if o.code != exitConfig || !strings.Contains(o.stderr, "cmd: "+program) && !strings.Contains(o.stderr, "cmd: "+plain) {
		t.Errorf("%+v", o)
	}
	if got := h.text(t, path); got != "extensions: {x: {type: stdio, cmd: y}}\n" {
		t.Errorf("it has become %q", got)
	}
	for _, args := range [][]string{{"connect", "curser"}, {"connect", "cursor", "--scope", "all"}, {"connect", "cursor", "--capsule", "x"}, {"connect", "claude-desktop", "--http"}} {
		if o := h.run(t, args...); o.code != exitUsage {
			t.Errorf("%v: %+v", args, o)
		}
	}
}

// importOutput is the JSON of an import.
type importOutput struct {
	File      string
	Servers   []imported
	Variables []string
	Written   bool
}

func (h *home) imports(t *testing.T, args ...string) importOutput {
	t.Helper()
	var out importOutput
	if err := json.Unmarshal([]byte(h.ok(t, slices.Concat([]string{"import", "-o", "json"}, args)...)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Servers of several clients come together, once each, with their credentials as
// references; without --write nothing changes.
func TestImport(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	delete(h.env, "TOOLGATE_LISTEN_HTTP")
	const secret = "s3cr3t-of-the-github-server"
	h.env["HOME"] = h.path("person")
	h.keep(t, "person/.cursor/mcp.json", `{"mcpServers":{
		"gh":{"url":"http://127.0.0.1:1/mcp?api_key=`+secret+`-query","headers":{"Authorization":"Bearer `+secret+`"}},
		"fs":{"command":"true","args":["--token","`+secret+`-argument","--api-key=`+secret+`-joined"],"env":{"API_TOKEN":"`+secret+`-env","PLAIN":"yes","REF":"${env:SOME_TOKEN}"}},
		"toolgate":{"command":"toolgate","args":["stdio"]}}}`, 0o600)
	h.keep(t, "person/.gemini/settings.json", `{"mcpServers":{"fs":{"command":"false"},"old":{"url":"http://127.0.0.1:1/sse"}}}`, 0o600)
	h.keep(t, "person/.codex/config.toml", "model = \"x\"\n", 0o600)
	h.keep(t, ".vscode/mcp.json", `{"inputs":[{"id":"the-key","type":"promptString"}],"servers":{"in":{"type":"stdio","command":"true","env":{"K":"${input:the-key}"}}}}`, 0o600)
	h.file = h.path("toolgate.yaml")

	plan := h.imports(t)
	if _, err := os.Stat(h.file); err == nil || plan.Written {
		t.Fatal("written without --write")
	}
	h.env["SOME_TOKEN"], h.env["THE_KEY"] = "a", "b"
	done := h.imports(t, "--write")
	got := map[string]string{}
	for _, s := range done.Servers {
		got[s.Client+" "+s.Name] = s.Action
	}
	want := map[string]string{
		"cursor fs": importNew, "cursor gh": importNew, "cursor toolgate": importNot,
		"gemini fs-gemini": importRename, "gemini old": importNew, "vscode in": importNew,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text := h.text(t, h.file)
	if strings.Contains(text, secret) {
		t.Errorf("a credential is in the file:\n%s", text)
	}
	info, err := os.Stat(h.path("toolgate.env"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	kept, err := envfile.Read(h.path("toolgate.env"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{
		"GH_TOKEN": secret, "GH_API_KEY": secret + "-query", "FS_TOKEN": secret + "-argument", "FS_API_KEY": secret + "-joined", "API_TOKEN": secret + "-env",
	}, kept); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
	// What was imported means what it meant to its client.
	lookup := func(name string) (string, bool) {
		v, ok := kept[name]
		return v, ok || name == "SOME_TOKEN" || name == "THE_KEY"
	}
	c, err := config.Load(h.file, config.Options{LookupEnv: lookup})
	if err != nil {
		t.Fatal(err)
	}
	for name, what := range map[string]func(s config.Server) bool{
		"gh": func(s config.Server) bool {
			return s.Headers["Authorization"].Reveal() == "Bearer "+secret && strings.HasSuffix(s.URL, "api_key="+secret+"-query")
		},
		"fs":  func(s config.Server) bool { return s.Args[1] == secret+"-argument" && s.Env["PLAIN"].Reveal() == "yes" },
		"old": func(s config.Server) bool { return s.Transport == upstream.SSE },
		"in":  func(s config.Server) bool { _, ok := s.Env["K"]; return ok && s.Transport == upstream.Stdio },
	} {
		if s, ok := c.Server(name); !ok || s.Refused != nil || !what(s) {
			t.Errorf("%s has become %+v %v", name, s, s.Refused)
		}
	}
	if o := h.run(t, "validate", "-o", "json"); o.code != exitOK || strings.Contains(o.stdout, "refused") {
		t.Errorf("%+v", o)
	}
	again := h.imports(t, "--write")
	for _, s := range again.Servers {
		if s.Action == importNew || s.Action == importRename {
			t.Errorf("again: %+v", s)
		}
	}
	if h.text(t, h.file) != text {
		t.Error("the second import has changed the file")
	}
}

// Servers are added and removed, and the rest of the file stays.
func TestAddAndRemove(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const before = "# my servers\nmcpServers:\n  a:\n    command: 'true' # the first\ntoolgate:\n  gate: { open: true }\n"
	h.writeText(t, before)
	h.ok(t, "add", "files", "--env", "A=b", "--", "npx", "-y", "x")
	h.ok(t, "add", "gh", "https://api.example/mcp", "--header", "Authorization=Bearer ${GH}")
	c, err := config.Load(h.file, config.Options{Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	files, _ := c.Server("files")
	gh, _ := c.Server("gh")
	if files.Command != "npx" || !slices.Equal(files.Args, []string{"-y", "x"}) || files.Env["A"].Reveal() != "b" || gh.Headers["Authorization"].Reveal() != "Bearer ${GH}" {
		t.Errorf("added: %s", h.text(t, h.file))
	}
	h.ok(t, "remove", "gh")
	h.ok(t, "rm", "files")
	if got := h.text(t, h.file); got != before {
		t.Errorf("removed again: %s", cmp.Diff(before, got))
	}
	for _, tt := range []struct {
		code int
		args []string
	}{
		{exitUsage, []string{"remove", "nobody"}},
		{exitConfig, []string{"add", "A", "--", "x"}}, // the namespace of a
		{exitUsage, []string{"add", "b", "npx", "x"}},
		{exitUsage, []string{"add", "b", "--header", "a=b", "--", "x"}},
		{exitUsage, []string{"add", "b"}},
	} {
		if o := h.run(t, tt.args...); o.code != tt.code {
			t.Errorf("%v: %+v", tt.args, o)
		}
	}
	if got := h.text(t, h.file); got != before {
		t.Errorf("refused changes: %s", got)
	}
}

// A gateway's tools are held against each client's limits.
func TestLint(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"many": fake("tools=90"), "one": fake()}, nil)
	h.up(t)
	o := h.run(t, "lint", h.file, "--client", "cursor", "-o", "json")
	var out struct {
		Tools    int
		Problems []clients.Problem
	}
	if err := json.Unmarshal([]byte(o.stdout), &out); err != nil {
		t.Fatal(err)
	}
	if o.code != exitConfig || !slices.ContainsFunc(out.Problems, func(p clients.Problem) bool { return p.Rule == clients.RuleTools && p.Client == "cursor" }) {
		t.Errorf("%+v", o)
	}
	if o := h.run(t, "lint", h.file, "--client", "claude-desktop"); o.code != exitOK {
		t.Errorf("%+v", o)
	}
	if o := h.run(t, "lint", h.file); o.code != exitOK {
		t.Errorf("without a client: %+v", o)
	}
}

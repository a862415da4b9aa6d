//go:build amd64 || arm64

package profile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/cmd/toolgate/profile"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/sandbox"
)

// node is a server in Node.js that loads a package and reads its data at the start.
const node = `
const lines = require('readline').createInterface({ input: process.stdin })
const { name } = require('helper')
const title = require('fs').readFileSync(process.env.TITLE, 'utf8').trim()
lines.on('line', line => {
  const { id, method } = JSON.parse(line)
  if (id === undefined) return
  let result
  if (method === 'initialize') result = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name, version: '1' } }
  if (method === 'tools/list') result = { tools: [{ name: 'hello', title, inputSchema: { type: 'object' } }] }
  const answer = result ? { result } : { error: { code: -32601, message: 'Method not found' } }
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...answer }))
})
`

// python is a server in Python with a module beside it.
const python = `
import json, sys
import helper
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"error": {"code": -32601, "message": "Method not found"}}
    if message["method"] == "initialize":
        answer = {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": helper.name, "version": "1"}}}
    if message["method"] == "tools/list":
        answer = {"result": {"tools": [{"name": "hello", "inputSchema": {"type": "object"}}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
`

type place struct{ home, project string }

// newPlace makes a home with secrets and a project in it.
func newPlace(t *testing.T) place {
	t.Helper()
	if err := sandbox.Refusal(sandbox.Policy{Unlimited: true}); err != nil {
		t.Skip("NOT CHECKED: what is proposed for servers, because", err)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("TOOLGATE_STATE", filepath.Join(home, "state"))
	p := place{home, filepath.Join(home, "work", "project")}
	p.write(t, ".ssh/id", "hunter2")
	p.write(t, "work/other", "not the server's")
	return p
}

func (p place) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(p.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// propose proposes for the server of an entry.
func propose(t *testing.T, p place, entry string) (*profile.Proposal, *config.Config, error) {
	t.Helper()
	path := p.write(t, "conf/toolgate.yaml", "mcpServers: { srv: "+entry+" }\n")
	c, err := config.Load(path, config.Options{LookupEnv: os.LookupEnv})
	if err != nil {
		t.Fatal(err)
	}
	search := profile.Search{Server: &c.Servers[0], Config: c, Off: build.KeepOff(c, []string{filepath.Dir(path)}), Log: func(what string) { t.Log("trying", what) }}
	found, err := search.Propose(t.Context())
	return found, c, err
}

func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("NOT CHECKED: servers that %s runs, because there is none", name)
	}
	return path
}

func TestNode(t *testing.T) {
	program(t, "node")
	p := newPlace(t)
	script := p.write(t, "work/project/server.js", node)
	p.write(t, "work/project/package.json", "{}")
	p.write(t, "work/project/node_modules/helper/index.js", "exports.name = 'helped'")
	title := p.write(t, "titles/one", "A title")
	found, _, err := propose(t, p, fmt.Sprintf("{ command: node, args: [%q], env: { TITLE: %q } }", script, title))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{title, p.project}; !slices.Equal(found.Sandbox.Read, want) || found.Sandbox.Run != nil || found.Sandbox.Write != nil || found.Sandbox.Network != "none" || found.Tools != 1 {
		t.Errorf("%+v, want to read %q", found, want)
	}
	if text := found.YAML("srv"); !strings.Contains(text, "# srv listed 1 tool with") || !strings.Contains(text, "        network: none\n") {
		t.Errorf("it writes\n%s", text)
	}
}

func TestPython(t *testing.T) {
	p := newPlace(t)
	for _, system := range []string{"/usr/bin/python3", "python3"} { // the second may be that of a version manager
		t.Run(filepath.Base(filepath.Dir(system)), func(t *testing.T) {
			t.Setenv("HOME", p.home)
			command := program(t, system)
			script := p.write(t, "scripts/server.py", python)
			p.write(t, "scripts/helper.py", "name = 'helped'")
			found, _, err := propose(t, p, fmt.Sprintf("{ command: %q, args: [%q] }", command, script))
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Dir(script); !slices.Contains(found.Sandbox.Read, want) || found.Sandbox.Network != "none" {
				t.Errorf("it does not read %s: %+v", want, found)
			}
			for _, path := range slices.Concat(found.Sandbox.Read, found.Sandbox.Run) {
				if path == p.home || path == "/" {
					t.Errorf("it proposes %s", path)
				}
			}
		})
	}
}

// A server that asks for a secret is not given it, and the command says so.
func TestSecretsAreNotProposed(t *testing.T) {
	program(t, "node")
	p := newPlace(t)
	script := p.write(t, "work/project/server.js", node)
	p.write(t, "work/project/package.json", "{}")
	p.write(t, "work/project/node_modules/helper/index.js", "exports.name = 'helped'")
	// By its own name, by way of the kernel, and by a link.
	link := filepath.Join(filepath.Dir(p.project), "keys")
	if err := os.Symlink(filepath.Join(p.home, ".ssh"), link); err != nil {
		t.Fatal(err)
	}
	for _, title := range []string{filepath.Join(p.home, ".ssh/id"), "/proc/self/root" + filepath.Join(p.home, ".ssh/id"), filepath.Join(link, "id")} {
		_, _, err := propose(t, p, fmt.Sprintf("{ command: node, args: [%q], env: { TITLE: %q } }", script, title))
		if err == nil || !strings.Contains(err.Error(), "does not start with") || !strings.Contains(err.Error(), "which is not proposed") {
			t.Errorf("what is said of %s: %v", title, err)
		}
	}
}

// A server that does not start is said to be that, and its gateway's own files stay away.
func TestServersThatDoNotStart(t *testing.T) {
	p := newPlace(t)
	if _, _, err := propose(t, p, "{ command: /bin/false }"); err == nil || !strings.Contains(err.Error(), "the server does not start with") {
		t.Error(err)
	}
	if _, _, err := propose(t, p, "{ url: \"https://far.example.com/mcp\" }"); err == nil || !strings.Contains(err.Error(), "stdio") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &config.Config{}
	s := profile.Search{Server: &config.Server{Key: "a", Transport: "stdio", Command: "/bin/cat"}, Config: c, Off: build.KeepOff(c, nil)}
	if _, err := s.Propose(ctx); err == nil {
		t.Error("a search that nobody waits for finds something")
	}
}

// npx runs a server that is installed in its folder.
func TestNpx(t *testing.T) {
	program(t, "npx")
	p := newPlace(t)
	server := p.write(t, "work/project/node_modules/server/index.js", "#!/usr/bin/env node\n"+node)
	p.write(t, "work/project/node_modules/server/package.json", `{"name":"server","version":"1.0.0","bin":{"notes-server":"index.js"}}`)
	p.write(t, "work/project/node_modules/helper/index.js", "exports.name = 'helped'")
	p.write(t, "work/project/package.json", `{"dependencies":{"server":"1.0.0"}}`)
	title := p.write(t, "work/project/title", "A title")
	if err := os.MkdirAll(filepath.Join(p.project, "node_modules/.bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(server, 0o700), os.Symlink("../server/index.js", filepath.Join(p.project, "node_modules/.bin/notes-server"))); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	found, _, err := propose(t, p, fmt.Sprintf("{ command: npx, args: [--no-install, notes-server], cwd: %q, env: { TITLE: %q } }", p.project, title))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(found.Sandbox.Read, p.project) && !slices.Contains(found.Sandbox.Run, p.project) || found.Sandbox.Network != "none" || found.Tools != 1 {
		t.Errorf("%+v", found)
	}
}

// An environment of Python is run with the interpreter that it belongs to.
func TestVirtualEnvironment(t *testing.T) {
	python3 := program(t, "/usr/bin/python3")
	p := newPlace(t)
	if out, err := exec.CommandContext(t.Context(), python3, "-m", "venv", "--without-pip", filepath.Join(p.home, "work/venv")).CombinedOutput(); err != nil {
		t.Skipf("NOT CHECKED: servers in a virtual environment, because none can be made: %v\n%s", err, out)
	}
	packages, err := filepath.Glob(filepath.Join(p.home, "work/venv/lib/python3*/site-packages"))
	if err != nil || len(packages) != 1 {
		t.Fatal(packages, err)
	}
	rel, err := filepath.Rel(p.home, packages[0])
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, filepath.Join(rel, "helper.py"), "name = 'helped'")
	p.write(t, filepath.Join(rel, "notes_server.py"), python)
	venv := filepath.Join(p.home, "work/venv")
	found, _, err := propose(t, p, fmt.Sprintf("{ command: %q, args: [-m, notes_server] }", filepath.Join(venv, "bin/python3")))
	if err != nil {
		t.Fatal(err)
	}
	if all := slices.Concat(found.Sandbox.Read, found.Sandbox.Run); !slices.Contains(all, venv) || found.Tools != 1 || found.Sandbox.Network != "none" {
		t.Errorf("%+v", found)
	}
}

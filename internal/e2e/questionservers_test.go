//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// asker is a server whose tools and prompts ask their caller, made with one of
// the libraries. In the modern era each of them returns input_required itself,
// so that no scripted server has to stand in.
type asker struct {
	name    string // of the library
	brief   string // of it in namespaces
	program func() installed
	command func(t *testing.T) *exec.Cmd
}

var askers = []*asker{
	{"typescript-sdk-1", "ts1", nodeNeeded, nodeAsker("server_old.mjs")},
	{"typescript-sdk-2", "ts2", nodeNeeded, nodeAsker("server_new.mjs")},
	{"python-sdk", "python", pyNeeded, pythonAsker("server_sdk.py")},
	{"fastmcp", "fastmcp", pyNeeded, pythonAsker("server_fast.py")},
	{"go-sdk", "gosdk", none, goAsker()},
	{"mcp-go", "mcpgo", none, goAsker("-second")},
}

func nodeAsker(file string) func(*testing.T) *exec.Cmd {
	return func(*testing.T) *exec.Cmd {
		return exec.Command(lab.node.path, filepath.Join(lab.cache, "node", file))
	}
}

func pythonAsker(file string) func(*testing.T) *exec.Cmd {
	return func(*testing.T) *exec.Cmd {
		cmd := exec.Command(lab.python.path, filepath.Join(lab.root, "internal", "e2e", "python", file))
		cmd.Env = pythonEnv()
		return cmd
	}
}

func goAsker(args ...string) func(*testing.T) *exec.Cmd {
	return func(t *testing.T) *exec.Cmd {
		return exec.Command(built(t, lab.fixture), append([]string{"-ask", "-http", "127.0.0.1:0"}, args...)...)
	}
}

// side is a client or a server: a library in one era.
type side struct{ name, era string }

func (s side) String() string { return s.name + "/" + s.era }

func clientSides() []side {
	var names []string
	for i := range clients {
		names = append(names, clients[i].name)
	}
	return sides("client", names)
}

func serverSides() []side {
	var names []string
	for _, a := range askers {
		names = append(names, a.name)
	}
	return sides("server", names)
}

// namespace is where toolgate mounts a server, speaking to it in one era.
func (s side) namespace() string {
	for _, a := range askers {
		if a.name == s.name {
			return a.brief + "-" + s.era
		}
	}
	return ""
}

// sides returns the libraries that take part in a role, in each of their eras.
func sides(role string, names []string) []side {
	var all []side
	for _, name := range names {
		for _, era := range eras {
			left := false
			for _, a := range notThere {
				left = left || a.role == role && a.name == name && (a.era == "" || a.era == era)
			}
			if !left {
				all = append(all, side{name, era})
			}
		}
	}
	return all
}

// startAskers starts every server and returns where they listen, by name.
func startAskers(t *testing.T) map[string]string {
	t.Helper()
	processes := map[string]*process{}
	for _, a := range askers {
		if p := a.program(); p.err != nil {
			need(t, p)
		}
		processes[a.name] = start(t, "asking server "+a.name, a.command(t))
	}
	urls := map[string]string{}
	for name, p := range processes {
		urls[name] = p.waitFor(t, urlLine, 30*time.Second)
	}
	return urls
}

// TestAskersArePinned holds the servers to the versions of the clients of their
// library. The package of the newer TypeScript server is not asked for in
// package.json: the Inspector brings it, so package-lock.json is what pins it.
func TestAskersArePinned(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("node", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ Version string } `json:"packages"`
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		t.Fatalf("reading package-lock.json: %v", err)
	}
	need(t, lab.node)
	for _, name := range []string{"@modelcontextprotocol/server", "@modelcontextprotocol/sdk", "zod"} {
		locked := lock.Packages["node_modules/"+name].Version
		data, err := os.ReadFile(filepath.Join(lab.cache, "node", "node_modules", name, "package.json"))
		if err != nil {
			t.Fatal(err)
		}
		var have struct{ Version string }
		if err := json.Unmarshal(data, &have); err != nil || locked == "" || have.Version != locked {
			t.Errorf("%s: version %q is installed, %q is locked (%v)", name, have.Version, locked, err)
		}
	}
}

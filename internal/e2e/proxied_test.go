//go:build e2e && unix

package e2e

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
)

// The names under which the interceptor reaches the registries of this machine.
const (
	npmHost  = "npm.test"
	pypiHost = "pypi.test"
)

// downloadTime bounds the start of servers that are downloaded first.
const downloadTime = 100 * time.Second

// A server from npm and one from PyPI, downloaded by npx and uvx through a proxy whose
// certificates only its own authority vouches for. What toolgate has in its environment is
// all they need; without it they do not start, and it is said which variables they lack. A
// sandbox that grants the network, and to run what was downloaded, holds them.
func TestServersBehindProxy(t *testing.T) {
	need(t, lab.node)
	uvx := need(t, installUV(t))
	npm, pypi := npmRegistry(t), pypiIndex(t)
	proxy := startInterceptor(t, map[string]*url.URL{npmHost: npm, pypiHost: pypi})
	servers := func() object {
		return object{
			"memory": object{
				"command": "npx", "args": []string{"-y", "@modelcontextprotocol/server-memory@" + pinned(t, "@modelcontextprotocol/server-memory")},
				"env": object{
					"npm_config_registry": "https://" + npmHost + npm.Path, "npm_config_replace_registry_host": "always", "npm_config_userconfig": dirMark + "/npmrc",
					"npm_config_cache": dirMark + "/npm", "npm_config_fetch_retries": "0", "MEMORY_FILE_PATH": dirMark + "/memory.json",
				},
			},
			"time": object{
				"command": uvx, "args": []string{"mcp-server-time@2026.10.19", "--local-timezone=Etc/UTC"},
				"env": object{
					"UV_DEFAULT_INDEX": "https://" + pypiHost + pypi.Path, "UV_CACHE_DIR": dirMark + "/uv", "UV_NO_CONFIG": "1",
					"UV_PYTHON_DOWNLOADS": "never", "UV_HTTP_RETRIES": "0",
				},
			},
		}
	}
	// sandboxed are these servers with what they download in the private folder of their sandbox.
	sandboxed := func() object {
		all := servers()
		for _, name := range []string{"npm_config_cache", "npm_config_userconfig", "MEMORY_FILE_PATH"} {
			delete(all["memory"].(object)["env"].(object), name)
		}
		delete(all["time"].(object)["env"].(object), "UV_CACHE_DIR")
		return all
	}
	// started makes a gateway behind the proxy whose servers have these settings.
	started := func(t *testing.T, servers, settings object) *gateway {
		t.Helper()
		s := newSetup(t, servers, object{"servers": object{"memory": settings, "time": settings}})
		s.env = append(s.env, "HTTPS_PROXY="+proxy.url, "HTTP_PROXY="+proxy.url, "NODE_EXTRA_CA_CERTS="+proxy.caFile, "SSL_CERT_FILE="+proxy.caFile)
		return s.up(t)
	}
	of := func(t *testing.T, settings object) *gateway { return started(t, servers(), settings) }
	timeouts := object{"start": downloadTime.String()}

	// works says that both servers answer, and that both were downloaded through the proxy.
	works := func(t *testing.T, g *gateway, asked map[string]int) {
		t.Helper()
		g.awaitStates(t, map[string]string{"memory": "ready", "time": "ready"})
		if got := g.say(t, "call", "time__get_current_time", "timezone=Etc/UTC", "-c", g.file); !strings.Contains(got, "Etc/UTC") {
			t.Errorf("the time is %q", got)
		}
		if got := g.say(t, "call", "memory__read_graph", "-c", g.file); !strings.Contains(got, "entities") {
			t.Errorf("the graph is %q", got)
		}
		for host, before := range asked {
			if proxy.requests(host) == before {
				t.Errorf("nothing was downloaded from %s through the proxy", host)
			}
		}
	}
	// asked is how often each registry was asked until now.
	asked := func() map[string]int {
		return map[string]int{npmHost: proxy.requests(npmHost), pypiHost: proxy.requests(pypiHost)}
	}
	t.Run("handed on", func(t *testing.T) {
		before := asked()
		works(t, of(t, object{"timeouts": timeouts}), before)
	})
	t.Run("in a sandbox", func(t *testing.T) {
		before := asked()
		works(t, started(t, sandboxed(), object{"timeouts": timeouts, "sandbox": object{
			"network": "full", "run_own": true, "read": []string{proxy.caFile},
			"run": []string{filepath.Dir(uvx), filepath.Join(lab.cache, "node", "node_modules"), "/usr/local/bin", "/usr/bin", "/bin"},
		}}), before)
	})
	t.Run("held back", func(t *testing.T) {
		g := of(t, object{"timeouts": timeouts, "env_inherit": []string{}})
		for name, reason := range g.awaitStates(t, map[string]string{"memory": "failed", "time": "failed"}) {
			for _, want := range []string{"HTTPS_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "env_inherit"} {
				if !strings.Contains(reason, want) {
					t.Errorf("%s: %s: %s is not named", name, reason, want)
				}
			}
		}
	})
	t.Run("without the authority", func(t *testing.T) {
		g := of(t, object{"timeouts": timeouts, "env_inherit": []string{"HTTPS_PROXY", "HTTP_PROXY"}})
		for name, reason := range g.awaitStates(t, map[string]string{"memory": "failed", "time": "failed"}) {
			if !regexp.MustCompile(`(?i)certificate|issuer`).MatchString(reason) || !strings.Contains(reason, "SSL_CERT_FILE") || strings.Contains(reason, "HTTPS_PROXY") {
				t.Errorf("%s: %s", name, reason)
			}
		}
	})
}

// say runs a command of toolgate and returns its output.
func (g *gateway) say(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rawTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, built(t, lab.toolgate), args...)
	cmd.Env, cmd.Dir = g.env, g.dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("toolgate %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// awaitStates waits until servers are in these states, and returns the reasons.
func (g *gateway) awaitStates(t *testing.T, want map[string]string) map[string]string {
	t.Helper()
	reasons, last := map[string]string{}, ""
	if !testwait.Within(downloadTime+10*time.Second, func() bool {
		var status struct {
			Servers []struct{ Name, State, Reason string }
		}
		last = g.say(t, "ls", "-c", g.file, "-o", "json")
		if err := json.Unmarshal([]byte(last), &status); err != nil {
			t.Fatalf("%v: %s", err, last)
		}
		all := len(status.Servers) == len(want)
		for _, s := range status.Servers {
			reasons[s.Name] = s.Reason
			all = all && s.State == want[s.Name]
		}
		return all
	}) {
		t.Fatalf("the servers are %s, want %v", last, want)
	}
	return reasons
}

// pinned is the version of an npm package that the tests use.
func pinned(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(lab.root, "internal", "e2e", "node", "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &file); err != nil || file.Dependencies[name] == "" {
		t.Fatalf("the version of %s: %v", name, err)
	}
	return file.Dependencies[name]
}

// npmRegistry is where npm of this machine finds packages.
func npmRegistry(t *testing.T) *url.URL {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "npm", "config", "get", "registry").Output()
	if err != nil {
		t.Fatalf("asking npm for its registry: %v", err)
	}
	return address(t, string(out))
}

// pypiIndex is where pip of this machine finds packages.
func pypiIndex(t *testing.T) *url.URL {
	t.Helper()
	for _, name := range []string{"UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"} {
		if at := os.Getenv(name); at != "" {
			return address(t, at)
		}
	}
	const asks = `
from pip._internal.configuration import Configuration
from pip._internal.models.index import PyPI
c = Configuration(isolated=False)
c.load()
print(dict(c.items()).get("global.index-url") or PyPI.simple_url)
`
	out, err := exec.CommandContext(t.Context(), "python3", "-c", asks).Output()
	if err != nil {
		t.Fatalf("asking pip for its index: %v", err)
	}
	return address(t, string(out))
}

func address(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Host == "" {
		t.Fatalf("%q is no address of packages: %v", text, err)
	}
	return u
}

// installUV makes a virtual environment with python/uv.txt in the cache and returns the
// path of its uvx.
func installUV(t *testing.T) installed {
	t.Helper()
	requirements := filepath.Join(lab.root, "internal", "e2e", "python", "uv.txt")
	dst := filepath.Join(lab.cache, "uv")
	path := filepath.Join(dst, "bin", "uvx")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return installed{path: path, err: once(dst, []string{requirements}, path, func() error { return environment(ctx, dst, requirements) })}
}

//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
)

// startTimeout is how long toolgate may take until it prints its URL. It serves
// before its servers have started, so this is generous.
const startTimeout = 15 * time.Second

var urlLine = regexp.MustCompile(`http://(127\.0\.0\.1|localhost|\[::1\]):\d+/mcp\b`)

// object is a JSON object of a configuration.
type object = map[string]any

// setup is one configuration in a folder of its own, with a home folder of its
// own: state, sockets and keys of one test are out of reach of the next.
type setup struct {
	dir  string
	file string
	env  []string
}

// newSetup writes the configuration. The folder's path is short, because a
// socket of toolgate may live below it, and is part of the command line of every
// fixture in it, by which noLeftovers finds what toolgate left running.
func newSetup(t *testing.T, servers, toolgate object) *setup {
	t.Helper()
	dir, err := os.MkdirTemp("", "tg") //nolint:usetesting // short enough for the path of a socket
	if err != nil {
		t.Fatalf("making a folder: %v", err)
	}
	t.Cleanup(func() {
		noLeftovers(t, dir)
		os.RemoveAll(dir)
	})
	config := object{"mcpServers": servers}
	if toolgate != nil {
		config["toolgate"] = toolgate
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		t.Fatalf("writing the configuration: %v", err)
	}
	data = []byte(strings.ReplaceAll(string(data), dirMark, dir))
	file := filepath.Join(dir, "servers.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatalf("writing the configuration: %v", err)
	}
	return &setup{dir: dir, file: file, env: privateEnv(t, dir)}
}

// dirMark in a configuration stands for the folder of its setup.
const dirMark = "@DIR@"

// privateEnv is an environment whose home is below dir.
func privateEnv(t *testing.T, dir string) []string {
	t.Helper()
	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatalf("making a home folder: %v", err)
	}
	return []string{
		"PATH=" + filepath.Join(lab.cache, "node", "node_modules", ".bin") + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=" + home,
		"XDG_CONFIG_HOME=" + filepath.Join(home, ".config"),
		"XDG_STATE_HOME=" + filepath.Join(home, ".local", "state"),
		"XDG_DATA_HOME=" + filepath.Join(home, ".local", "share"),
		"XDG_CACHE_HOME=" + filepath.Join(home, ".cache"),
		"TMPDIR=" + dir,
		"LANG=C.UTF-8",
		"NO_COLOR=1",
		// With the race detector a program else sleeps for a second as it ends,
		// which clients on stdio take for a program that does not end.
		"GORACE=atexit_sleep_ms=10",
	}
}

// envMap returns the environment as the drivers want it.
func (s *setup) envMap() map[string]string {
	m := map[string]string{}
	for _, kv := range s.env {
		k, v, _ := strings.Cut(kv, "=")
		m[k] = v
	}
	return m
}

// gateway is a running "toolgate up".
type gateway struct {
	*setup
	proc *process
	mcp  string // streamable HTTP
	sse  string // legacy HTTP+SSE
}

// up starts toolgate with the setup's file and waits until it says where it
// listens.
func (s *setup) up(t *testing.T, args ...string) *gateway {
	t.Helper()
	cmd := exec.Command(built(t, lab.toolgate), append([]string{"up", s.file, "--listen", "127.0.0.1:0", "--set", "listen.console="}, args...)...)
	cmd.Env, cmd.Dir = s.env, s.dir
	p := start(t, "toolgate up", cmd)
	url := p.waitFor(t, urlLine, startTimeout)
	return &gateway{setup: s, proc: p, mcp: url, sse: strings.TrimSuffix(url, "/mcp") + "/sse"}
}

// startGateway is newSetup and up, followed by waiting until every wanted tool
// is listed, each given by its exposed name.
func startGateway(t *testing.T, servers, toolgate object, want ...string) *gateway {
	t.Helper()
	g := newSetup(t, servers, toolgate).up(t)
	g.waitTools(t, "", want...)
	return g
}

// waitTools waits until all of want are listed to the holder of key.
func (g *gateway) waitTools(t *testing.T, key string, want ...string) {
	t.Helper()
	c := &raw{url: g.mcp, key: key}
	var names []string
	var err error
	if !testwait.Within(20*time.Second, func() bool {
		names, err = c.toolNames(t.Context())
		return err == nil && containsAll(names, want)
	}) {
		t.Fatalf("toolgate lists %q (%v), want all of %q", names, err, want)
	}
}

func containsAll(have, want []string) bool {
	set := map[string]bool{}
	for _, h := range have {
		set[h] = true
	}
	for _, w := range want {
		if !set[w] {
			return false
		}
	}
	return true
}

// stdio returns the target of a client that starts toolgate itself.
func (s *setup) stdio(t *testing.T) target {
	return target{
		Transport: "stdio",
		Command:   built(t, lab.toolgate),
		Args:      []string{"stdio", s.file},
		Env:       s.envMap(),
	}
}

// warm runs "toolgate stdio" once, until all of want are listed, so that the next
// one finds them kept.
func (s *setup) warm(t *testing.T, want ...string) {
	t.Helper()
	// A test of its own, so that the process has ended before the next begins.
	t.Run("warm", func(t *testing.T) {
		c := dialRawStdio(t, s.stdio(t))
		var names []string
		var err error
		if !testwait.Within(20*time.Second, func() bool {
			names, err = c.Tools(t.Context())
			return err == nil && containsAll(names, want)
		}) {
			t.Fatalf("toolgate stdio lists %q (%v), want all of %q", names, err, want)
		}
	})
}

// fixtureTools are the fixture's own tools behind a namespace.
func fixtureTools(namespace string) []string {
	names := []string{"echo", "slow", "cancelled_count", "change"}
	if namespace == "" {
		return names
	}
	for i := range names {
		names[i] = namespace + "__" + names[i]
	}
	return names
}

// fixtureProcess starts a fixture on HTTP and returns the URL of its /mcp.
func fixtureProcess(t *testing.T, era string, args ...string) string {
	t.Helper()
	cmd := exec.Command(built(t, lab.fixture), append([]string{"-http", "127.0.0.1:0", "-era", era}, args...)...)
	p := start(t, "fixture "+era, cmd)
	return p.waitFor(t, urlLine, 10*time.Second)
}

// fixtureServer returns the configuration entry of a fixture in the given era
// over the given transport, starting it where toolgate does not.
func fixtureServer(t *testing.T, transport, era string, args ...string) object {
	t.Helper()
	switch transport {
	case "stdio":
		return object{
			"command": built(t, lab.fixture),
			"args":    append([]string{"-era", era, "-tag", dirMark}, args...),
		}
	case "sse":
		return object{"type": "sse", "url": strings.TrimSuffix(fixtureProcess(t, era, args...), "/mcp") + "/sse"}
	default:
		return object{"type": "http", "url": fixtureProcess(t, era, args...)}
	}
}

// with returns a copy of o that also has the members of more.
func with(o, more object) object {
	all := maps.Clone(o)
	maps.Copy(all, more)
	return all
}

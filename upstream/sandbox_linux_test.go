//go:build amd64 || arm64

package upstream

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
)

func init() {
	// adversary does what its arguments say and answers what came of it.
	scripts["adversary"] = func(c *scripted) {
		c.legacy()
		c.on[mcp.MethodToolsCall] = func(call mcp.Message) {
			arguments := call.Param("arguments")
			what, _ := mcp.LookupString(arguments, "do")
			on, _ := mcp.LookupString(arguments, "on")
			said := "done"
			if text, err := attempt(what, on); err != nil {
				said = err.Error()
			} else if text != "" {
				said = text
			}
			c.say(jsonAnswer(call.ID, fmt.Sprintf(`{"said":%q}`, said)))
		}
		c.serve()
	}
}

func attempt(what, on string) (string, error) {
	switch what {
	case "read":
		data, err := os.ReadFile(on)
		return string(data), err
	case "write":
		return "", os.WriteFile(on, []byte("written"), 0o600)
	case "dial":
		conn, err := net.Dial("tcp", on)
		if err == nil {
			conn.Close()
		}
		return "", err
	case "listen":
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			listener.Close()
		}
		return "", err
	case "signal":
		return "", syscall.Kill(os.Getppid(), 0)
	case "home":
		return os.Getenv("HOME"), nil
	case "where":
		return os.Getwd()
	}
	return "", errors.New("unknown: " + what)
}

// confinedServer is the adversary under a policy.
func confinedServer(p sandbox.Policy) Spec {
	spec := childServer("adversary", mcp.Legacy)
	p.Temp, p.Unlimited = true, true
	spec.Sandbox = &p
	return spec
}

// confines skips a test where this machine cannot confine, once it has seen that such a
// server does not start and says why.
func confines(t *testing.T) {
	t.Helper()
	err := sandbox.Refusal(sandbox.Policy{Unlimited: true})
	if err == nil {
		return
	}
	r := run(t, confinedServer(sandbox.Policy{}))
	if reason := r.state(mcp.Failed); !strings.Contains(reason, "confine") {
		t.Errorf("a server that cannot be confined says %q", reason)
	}
	t.Skip("NOT CHECKED: what a confined server can do, because", err)
}

func TestConfinedServer(t *testing.T) {
	t.Parallel()
	confines(t)
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	for _, sub := range []string{"granted", "writable"} {
		if err := os.Mkdir(path(sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"secret": "hunter2", "granted/notes": "notes"} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()

	r := run(t, confinedServer(sandbox.Policy{Read: []string{path("granted")}, Write: []string{path("writable")}}))
	r.state(mcp.Ready)
	say := func(what, on string) string { return r.call(tool("echo", fmt.Sprintf(`{"do":%q,"on":%q}`, what, on))) }
	for _, c := range []struct {
		what, on string
		want     []string // one of them is in the answer
	}{
		{"read", path("granted/notes"), []string{"notes"}},
		{"read", path("secret"), []string{"no such file", "permission denied"}},
		{"read", "/etc/shadow", []string{"no such file", "permission denied"}},
		{"read", path("granted") + "/../secret", []string{"no such file", "permission denied"}},
		{"read", "/proc/1/environ", []string{childVariable, "permission denied", "no such file"}}, // its own, at most
		{"write", path("writable/new"), []string{"done"}},
		{"write", path("granted/new"), []string{"read-only", "permission denied"}},
		{"write", path("outside"), []string{"no such file", "read-only", "permission denied"}},
		{"dial", listener.Addr().String(), []string{"permission denied", "not permitted", "unreachable"}},
		{"listen", "", []string{"permission denied", "not permitted"}},
	} {
		got := say(c.what, c.on)
		found := false
		for _, want := range c.want {
			found = found || strings.Contains(got, want)
		}
		if !found || strings.Contains(got, "hunter2") {
			t.Errorf("%s %s: %s, want one of %q", c.what, c.on, got, c.want)
		}
	}
	home := say("home", "")
	if where := say("where", ""); where != home || !strings.Contains(home, "toolgate-sandbox-") {
		t.Errorf("its home is %s, and it starts in %s", home, where)
	}
	private := strings.TrimSuffix(strings.TrimPrefix(home, `{"said":"`), `"}`)
	if _, err := os.Stat(private); err != nil {
		t.Errorf("its private folder %s: %v", private, err)
	}
	r.end()
	if _, err := os.Stat(private); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its private folder is still there after its end: %v", err)
	}
}

// A server with a network has that and no more.
func TestConfinedServerOnline(t *testing.T) {
	t.Parallel()
	confines(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	r := run(t, confinedServer(sandbox.Policy{Network: sandbox.FullNetwork}))
	r.state(mcp.Ready)
	if got := r.call(tool("echo", fmt.Sprintf(`{"do":"dial","on":%q}`, listener.Addr()))); !strings.Contains(got, "done") {
		t.Errorf("dial: %s", got)
	}
	if got := r.call(tool("echo", `{"do":"read","on":"/etc/shadow"}`)); !strings.Contains(got, "no such file") && !strings.Contains(got, "permission denied") {
		t.Errorf("read: %s", got)
	}
}

// What is granted and is not there ends the start, with the reason.
func TestConfinedServerWithoutItsFolder(t *testing.T) {
	t.Parallel()
	confines(t)
	r := run(t, confinedServer(sandbox.Policy{Read: []string{filepath.Join(t.TempDir(), "none")}}))
	if reason := r.state(mcp.Failed); !strings.Contains(reason, "does not exist") {
		t.Errorf("it says %q", reason)
	}
}

// Another sandbox is another server.
func TestSandboxInTheHash(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range []*sandbox.Policy{nil, {}, {Read: []string{"/a"}}, {Write: []string{"/a"}}, {Run: []string{"/a"}}, {Network: sandbox.FullNetwork}} {
		spec := childServer("legacy", mcp.Legacy)
		spec.Sandbox = p
		seen[spec.Hash()] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d hashes of 6 servers", len(seen))
	}
}

//go:build !windows

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/daemontest"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = daemontest.Patience

// home is a person's world: a folder, a configuration and an environment.
type home struct {
	*daemontest.Home
	dir, file string
	env       map[string]string
	serves    string // the program that serves, if it is not the usual one
	light     bool   // nothing of it is raced but what serves
}

// newHome makes one whose paths are short enough for sockets.
func newHome(t *testing.T) *home {
	t.Helper()
	of := daemontest.NewHome(t)
	dir := of.Dir
	return &home{Home: of, dir: dir, file: of.File, env: map[string]string{
		"HOME": dir, "PATH": os.Getenv("PATH"), "TMPDIR": dir, "XDG_CONFIG_HOME": filepath.Join(dir, "config"),
		"TOOLGATE_STATE": filepath.Join(dir, "state"), "TOOLGATE_LISTEN_METRICS": "", "TOOLGATE_LISTEN_CONSOLE": "", "TOOLGATE_LISTEN_HTTP": "127.0.0.1:0",
		"TOOLGATE_KEYRING": "file", // whoever runs the tests keeps their own key ring
		"GORACE":           "atexit_sleep_ms=10",
	}}
}

func (h *home) path(name string) string { return h.Path(name) }

var sum, withKeys = daemontest.KeyHash, daemontest.WithKeys

func fake(args ...string) map[string]any { return daemontest.Fake(args...) }

type servers = daemontest.Servers

func (h *home) write(t *testing.T, s servers, toolgate map[string]any) {
	t.Helper()
	h.Write(t, s, toolgate)
}

func (h *home) writeText(t *testing.T, text string) {
	t.Helper()
	h.WriteText(t, text)
}

// runsRaced counts the runs of each command under the race detector.
var runsRaced struct {
	sync.Mutex
	runs map[string]int
}

// maxRaced is how often a command runs under the race detector, in all tests together.
// To start it there takes about a second of the processor, mostly before main.
var maxRaced = flag.Int("max-raced", 10, "how often each command that asks and ends runs under the race detector")

// programFor is the program that runs a command. What serves is always [program]. A
// command that asks, or writes a file, and ends is raced some times.
func programFor(args []string) string {
	if len(args) == 0 || !slices.Contains([]string{
		"approvals", "audit", "breaker", "budget", "call", "catalog", "config", "connect", "disconnect", "doctor", "find", "import", "logs", "ls", "mode",
		"policy", "reload", "secret", "spicedb", "status", "stop", "tools", "usage", "validate", "why",
	}, args[0]) {
		return program
	}
	runsRaced.Lock()
	defer runsRaced.Unlock()
	if runsRaced.runs == nil {
		runsRaced.runs = make(map[string]int)
	}
	if runsRaced.runs[args[0]]++; runsRaced.runs[args[0]] <= *maxRaced {
		return program
	}
	return plain
}

func (h *home) command(ctx context.Context, args ...string) *exec.Cmd {
	name := programFor(args)
	if h.light && len(args) > 0 && args[0] != "up" {
		name = plain
	}
	if h.serves != "" && len(args) > 0 && args[0] == "up" {
		name = h.serves
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = h.dir
	for _, name := range slices.Sorted(maps.Keys(h.env)) {
		cmd.Env = append(cmd.Env, name+"="+h.env[name])
	}
	return cmd
}

// outcome is what a command left.
type outcome struct {
	code           int
	stdout, stderr string
}

// run runs a command to its end, with text as its input.
func (h *home) runWith(t *testing.T, text string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := h.command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &out, &errs
	err := cmd.Run()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) || ctx.Err() != nil {
		t.Fatalf("toolgate %v: %v\n%s", args, err, errs.String())
	}
	if strings.Contains(errs.String(), "DATA RACE") {
		t.Errorf("toolgate %v: %s", args, errs.String())
	}
	return outcome{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func (h *home) run(t *testing.T, args ...string) outcome {
	t.Helper()
	return h.runWith(t, "", args...)
}

// ok runs a command that must succeed and returns its output.
func (h *home) ok(t *testing.T, args ...string) string {
	t.Helper()
	o := h.run(t, args...)
	if o.code != exitOK {
		t.Fatalf("toolgate %v: exit code %d\n%s%s", args, o.code, o.stdout, o.stderr)
	}
	return o.stdout
}

// pid calls the tool of a fake server that tells its process id.
func (h *home) pid(t *testing.T, server string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(h.ok(t, "call", server+"__pid", "--file", h.file)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// servers asks the running gateway for its servers, by name.
func (h *home) servers(t *testing.T) map[string]admin.Server {
	t.Helper()
	var list struct{ Servers []admin.Server }
	if err := json.Unmarshal([]byte(h.ok(t, "ls", h.file, "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	out := make(map[string]admin.Server, len(list.Servers))
	for _, s := range list.Servers {
		out[s.Name] = s
	}
	return out
}

// transcript is what a process writes, for whoever waits for something in it.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (tr *transcript) Write(p []byte) (int, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.text.Write(p)
}

func (tr *transcript) String() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.text.String()
}

// process is a command that runs beside the test.
type process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out, err *transcript
	ended    chan struct{}
}

// start starts a command. When the test is over it must have ended.
func (h *home) start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: h.command(context.WithoutCancel(t.Context()), args...), out: &transcript{}, err: &transcript{}, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	p.cmd.WaitDelay = patience
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process, which the cleanup ends
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		select {
		case <-p.ended:
		default:
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-p.ended:
			case <-time.After(patience):
				_ = p.cmd.Process.Kill()
				<-p.ended
				t.Errorf("toolgate %v did not end", args)
			}
		}
		if strings.Contains(p.err.String(), "DATA RACE") || t.Failed() {
			t.Logf("toolgate %v:\n%s%s", args, p.out, p.err)
		}
		if strings.Contains(p.err.String(), "DATA RACE") {
			t.Error("data race")
		}
	})
	return p
}

// says waits for a match in a transcript and returns its groups.
func (p *process) says(t *testing.T, where *transcript, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	testwait.Until(t, patience, "output like "+pattern, func() bool {
		found = re.FindStringSubmatch(where.String())
		if found != nil {
			return true
		}
		select {
		case <-p.ended:
			if found = re.FindStringSubmatch(where.String()); found == nil {
				t.Fatalf("ended without %s:\n%s%s", pattern, p.out, p.err)
			}
			return true
		default:
			return false
		}
	})
	return found
}

// stop asks the process to end and returns its exit code.
func (p *process) stop(t *testing.T, sig syscall.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	return p.wait(t)
}

func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatal("the process does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// up starts a gateway, waits until every server is known and returns its URL.
func (h *home) up(t *testing.T, args ...string) (*process, string) {
	t.Helper()
	p := h.start(t, append([]string{"up", h.file}, args...)...)
	p.says(t, p.out, `(?m)^ready +(in|\d+ of) `)
	return p, p.says(t, p.out, `(https?://\S+)/mcp `)[1]
}

// post sends one request of 2026-07-28.
func post(t *testing.T, client *http.Client, url, key, method, name, params string) (int, []byte) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{%q:%q,%q:{}}}}`,
		method, params, mcp.MetaVersion, mcp.LatestModern, mcp.MetaCapabilities)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set(mcp.HeaderVersion, string(mcp.LatestModern))
	r.Header.Set(mcp.HeaderMethod, method)
	if name != "" {
		r.Header.Set(mcp.HeaderName, name)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// newClient returns a client whose connections end with the test.
func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func alive(pid int) bool { return daemontest.Alive(pid) }

// sockets lists what is left of control sockets.
func (h *home) sockets(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, "state", "*", "*.sock"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

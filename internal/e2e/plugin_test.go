//go:build e2e && unix

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native"
)

// pythonPlugin is examples/plugin-python with its checksum in its configuration,
// in a folder of its own.
func pythonPlugin(t *testing.T) (s *setup, program, checksum string) {
	t.Helper()
	venv := need(t, lab.plugin)
	s = newSetup(t, object{}, nil)
	example := filepath.Join(lab.root, "examples", "plugin-python")
	program = filepath.Join(s.dir, "sums.py")
	if err := copyFile(filepath.Join(example, "sums.py"), program); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatalf("reading the plugin: %v", err)
	}
	sum := sha256.Sum256(text)
	checksum = hex.EncodeToString(sum[:])
	config, err := os.ReadFile(filepath.Join(example, "toolgate.yaml"))
	if err != nil {
		t.Fatalf("reading the configuration of the example: %v", err)
	}
	s.file = filepath.Join(s.dir, "toolgate.yaml")
	filled := strings.Replace(string(config), strings.Repeat("0", 2*sha256.Size), checksum, 1)
	if err := os.WriteFile(s.file, []byte(filled), 0o600); err != nil {
		t.Fatalf("writing the configuration: %v", err)
	}
	prefix, err := exec.CommandContext(t.Context(), filepath.Join(venv, pythonBinary), "-c", `import sys; print(sys.base_prefix, end="")`).Output()
	if err != nil {
		t.Fatalf("asking where the interpreter is: %v", err)
	}
	s.env = append(s.env, "PLUGIN_VENV="+venv, "PLUGIN_PYTHON="+string(prefix))
	return s, program, checksum
}

// TestPythonPlugin calls a plugin in Python through the gateway: progress, log,
// refusal, cancellation, and a process that is killed.
func TestPythonPlugin(t *testing.T) {
	t.Parallel()
	s, _, _ := pythonPlugin(t)
	g := s.up(t)
	g.waitTools(t, "", "sums__add_up")
	r := &raw{url: g.mcp}
	if err := r.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.call(t.Context(), "logging/setLevel", object{"level": "info"}); err != nil {
		t.Error(err)
	}
	params := `{"name":"sums__add_up","arguments":{"to":3},"_meta":{"progressToken":"p"}}`
	got, err := r.send(t.Context(), "POST", r.url, `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":`+params+`}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"progressToken":"p","progress":3,"total":3`, `"data":"adding up to 3"`, `"structuredContent":{"sum": 6}`,
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("%s is not in the answer:\n%s", want, got.body)
		}
	}
	if text, err := r.callTool(t.Context(), "sums__add_up", object{"to": 0}); err == nil || !strings.Contains(err.Error(), "to is 0 and must be 1 or more.") {
		t.Errorf("a call that makes no sense: %q, %v", text, err)
	}

	// A client goes away, and the tool hears of it.
	logs := func() string {
		cmd := exec.Command(built(t, lab.toolgate), "logs", "sums", "--file", s.file)
		cmd.Env, cmd.Dir = s.env, s.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("reading what the plugin said: %v\n%s", err, out)
		}
		return string(out)
	}
	other := &raw{url: g.mcp}
	if err := other.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = other.send(t.Context(), "POST", other.url,
			`{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"sums__add_up","arguments":{"to":100,"pause_ms":1000}}}`, nil)
	}()
	go func() {
		defer close(gone)
		if !testwait.Within(startTimeout, func() bool { return strings.Contains(logs(), "adding up to=100") }) {
			t.Error("the call does not run")
		}
	}()
	<-gone
	if _, err := r.send(t.Context(), "POST", other.url, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}`,
		map[string]string{"Mcp-Session-Id": other.session, "Mcp-Protocol-Version": "2025-11-25"}); err != nil {
		t.Error(err)
	}
	if !testwait.Within(startTimeout, func() bool { return strings.Contains(logs(), "stopped at=") }) {
		t.Errorf("the tool is not told that nobody waits for it:\n%s", logs())
	}
	<-ended

	// Its process is killed, and another one serves.
	before := children(t, g.proc.cmd.Process.Pid)
	if len(before) != 1 {
		t.Fatalf("processes of the gateway: %v", before)
	}
	if err := syscall.Kill(before[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !testwait.Within(startTimeout, func() bool {
		text, err := r.callTool(t.Context(), "sums__add_up", object{"to": 4})
		return err == nil && strings.Contains(text, "10")
	}) {
		t.Errorf("the plugin is not started again:\n%s", logs())
	}
	after := children(t, g.proc.cmd.Process.Pid)
	if len(after) != 1 || after[0] == before[0] {
		t.Errorf("processes of the gateway: %v, before %v", after, before)
	}
	g.proc.stop(t)
	for _, pid := range after {
		if !testwait.Within(startTimeout, func() bool { return syscall.Kill(pid, 0) != nil }) {
			t.Errorf("process %d outlives its gateway", pid)
		}
	}
}

// TestPythonPluginEnds asks a plugin in Python whether it is well, and ends it as
// the host does.
func TestPythonPluginEnds(t *testing.T) {
	t.Parallel()
	s, program, checksum := pythonPlugin(t)
	host, err := native.NewHost(native.Options{Folder: filepath.Join(s.dir, "p"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p := host.Plugin(native.Spec{
		Key: "sums", Path: program, SHA256: checksum, Policy: sandbox.Policy{Mode: sandbox.Off},
		Env: []string{"PATH=" + filepath.Join(lab.plugin.path, "bin") + ":/usr/bin:/bin"},
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Run(ctx)
	}()
	defer func() {
		stop()
		<-ended
	}()
	if !testwait.Within(startTimeout, func() bool { _, status := p.Listing(); return status.State == mcp.Ready }) {
		_, status := p.Listing()
		t.Fatalf("the plugin is %s: %s", status.State, status.Reason)
	}
	if err := p.Probe(t.Context()); err != nil {
		t.Errorf("is it well? %v", err)
	}
	pid := p.PID()
	stop()
	<-ended
	if lines, _ := p.Stderr(); len(lines) == 0 || !strings.Contains(lines[len(lines)-1], "told to end") {
		t.Errorf("it was not told to end: %q", lines)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("it is still there")
	}
}

// children returns the processes that a process has started and that still run.
func children(t *testing.T, pid int) []int {
	t.Helper()
	var out []int
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		var state string
		var parent int
		if _, err := fmt.Sscan(rest, &state, &parent); err != nil || parent != pid || state == "Z" {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, child)
	}
	return out
}

//go:build !windows

package native

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/testwait"
)

// pureProgram is this very program as it is released: with nothing of C in it, and
// without what looks for races, whose memory no limit leaves room for.
func pureProgram(t *testing.T) string {
	t.Helper()
	path, err := builtPure()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// pureFolder has the program; it is removed at the end of all tests.
var pureFolder = sync.OnceValues(func() (string, error) {
	made, err := os.MkdirTemp("", "native-test-")
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(made)
})

var builtPure = sync.OnceValues(func() (string, error) {
	folder, err := pureFolder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "native.test")
	if isPure() {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		program, err := os.ReadFile(self)
		if err != nil {
			return "", err
		}
		return path, os.WriteFile(path, program, 0o700)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "test", "-c", "-race=false", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the test program: %w\n%s", err, out)
	}
	return path, nil
})

// isPure tells whether the program that runs is built like that itself.
func isPure() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "0"}) &&
		!slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// confinedSpec is a plugin that plays a part under a policy.
func confinedSpec(t *testing.T, part string, policy sandbox.Policy) Spec {
	t.Helper()
	s := specOf(part)
	s.Path = pureProgram(t)
	s.SHA256, s.Policy = checksum(s.Path), policy
	return s
}

// say is what a tool answers.
func (r *running) say(t *testing.T, tool, args string) string {
	t.Helper()
	got, err := r.Call(t.Context(), callOf(tool, args))
	if err != nil {
		t.Fatal(tool, err)
	}
	return string(got.Result)
}

// layersFor are what confines here what a policy is for; refused tells that what
// must be confined does not run.
func layersFor(t *testing.T, policy sandbox.Policy) (layers []string, refused bool) {
	t.Helper()
	policy.Listen = true
	available, err := sandbox.Available(policy)
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range available.InForce {
		layers = append(layers, string(layer))
	}
	for _, m := range available.Missing {
		refused = refused || m.Needed && policy.Mode == sandbox.Required
	}
	return layers, refused
}

func TestConfined(t *testing.T) {
	t.Setenv("CANARY_SECRET", "canary-of-the-host")
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"granted", "changed", "outside"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name, "file"), []byte("a text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	socket, err := net.Listen("unix", filepath.Join(folder, "changed", "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, mode := range []sandbox.Mode{sandbox.Auto, sandbox.Required} {
		for name, mtls := range map[string]bool{"authenticated": true, "plain": false} {
			t.Run(string(mode)+" "+name, func(t *testing.T) {
				policy := sandbox.Policy{
					Mode: mode, Temp: true, Read: []string{folder + "/granted"}, Write: []string{folder + "/changed"},
				}
				s := confinedSpec(t, "plain", policy)
				s.AutoMTLS = mtls
				s.Env = append(s.Env, "GIVEN=1", "HOME="+folder, "TMPDIR="+folder)
				p := run(t, s)
				layers, refused := layersFor(t, policy)
				if refused {
					if status := p.await(t, mcp.Failed); !strings.Contains(status.Reason, "cannot confine it as required") {
						t.Error(status.Reason)
					}
					return
				}
				p.await(t, mcp.Ready)
				if diff := cmp.Diff(layers, p.Layers()); diff != "" {
					t.Error(diff)
				}
				if len(layers) == 0 {
					return // of a system that confines nothing
				}
				for _, c := range []struct{ tool, path, more, want string }{
					{"say", "", `"text":"hello"`, "hello"},
					{"read", folder + "/granted/file", "", "a text"},
					{"read", folder + "/outside/file", "", "refused"},
					{"read", s.Path, "", "refused"},
					{"read", "/proc/" + itoa(os.Getpid()) + "/environ", "", "refused"},
					{"write", folder + "/changed/new", "", "written"},
					{"write", folder + "/granted/new", "", "refused"},
					{"write", folder + "/outside/new", "", "refused"},
					{"connect", tcp.Addr().String(), `"network":"tcp"`, "refused"},
					{"connect", socket.Addr().String(), `"network":"unix"`, "refused"},
					{"start", "60", "", "refused"}, // nothing but itself is to be run
				} {
					args := fmt.Sprintf(`{"path":%q,%s}`, c.path, c.more)
					if c.tool == "say" {
						args = "{" + c.more + "}"
					}
					if got := p.say(t, c.tool, strings.Replace(args, ",}", "}", 1)); !strings.Contains(got, c.want) {
						t.Errorf("%s %s: %s", c.tool, c.path, got)
					}
				}
				env := p.say(t, "environment", "{}")
				private := "TMPDIR=" + p.host.opts.Folder + "/"
				if strings.Contains(env, "canary") || !strings.Contains(env, "GIVEN=1") || !strings.Contains(env, private) || strings.Contains(env, "HOME="+folder+`\n`) {
					t.Error("the environment is ", env)
				}
				if got := p.say(t, "stay", `{"path":""}`); !strings.Contains(got, "made") && !strings.Contains(got, "refused") {
					t.Error(got)
				}
				if n := len(p.left(t)); n != 1 {
					t.Error(n, "folders of sockets")
				}
				pid := p.PID()
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				testwait.Until(t, patience, "another process serves", func() bool { return p.PID() != 0 && p.PID() != pid })
				if left := p.left(t); alive(pid) || len(left) != 1 {
					t.Error("what was there before is left:", left)
				}
			})
		}
	}
}

// What a plugin has started ends with it.
func TestConfinedTree(t *testing.T) {
	t.Parallel()
	s := confinedSpec(t, "plain", sandbox.Policy{Mode: sandbox.Auto, Temp: true, Run: []string{"/bin", "/usr/bin"}})
	p := run(t, s)
	long := "865" + itoa(os.Getpid())
	if got := p.say(t, "start", fmt.Sprintf(`{"path":%q}`, long)); !strings.Contains(got, "started") {
		t.Fatal(got)
	}
	if len(p.Layers()) > 0 && len(sleeping(t, long)) != 1 {
		t.Error("nothing was started; the test is no use")
	}
	pid := p.PID()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "another process serves", func() bool { return p.PID() != 0 && p.PID() != pid })
	testwait.Until(t, patience, "what it has started has ended", func() bool { return len(sleeping(t, long)) == 0 })
}

// The program that runs confined is the one that was verified.
func TestConfinedChecksum(t *testing.T) {
	s := confinedSpec(t, "plain", sandbox.Policy{Mode: sandbox.Auto, Temp: true})
	s.SHA256 = strings.Repeat("ab", 32)
	p := run(t, s)
	if status := p.await(t, mcp.Failed); !strings.Contains(status.Reason, "not the configured one") {
		t.Error(status.Reason)
	}
	// A script is verified as it is, and its interpreter is what the policy says.
	script := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	folder, err := pureFolder()
	if err != nil {
		t.Fatal(err)
	}
	s.Policy.Run = []string{"/bin", "/usr/bin", folder}
	s.Path, s.SHA256, s.Args = script, checksum(script), []string{s.Path}
	p = run(t, s)
	p.await(t, mcp.Ready)
	if got := p.say(t, "say", `{"text":"from a script"}`); !strings.Contains(got, "from a script") {
		t.Error(got)
	}
}

// The gateway connects to nothing that a confined plugin could not serve on itself.
func TestConfinedServesElsewhere(t *testing.T) {
	t.Parallel()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(folder, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	policy := sandbox.Policy{Mode: sandbox.Auto, Temp: true}
	if layers, _ := layersFor(t, policy); len(layers) == 0 {
		return
	}
	for part, want := range map[string]string{"elsewhere": "not a socket in PLUGIN_UNIX_SOCKET_DIR", "network": "has no network"} {
		s := confinedSpec(t, part, policy)
		s.Env = append(s.Env, folderVar+"="+folder+"/s")
		p := run(t, s)
		if status := p.await(t, mcp.Failed); !strings.Contains(status.Reason, want) {
			t.Error(part, status.Reason)
		}
	}
}

// Where a layer is missing that must be there, the plugin does not run, and its
// state names the layer. A gateway that is confined itself has no namespaces to give.
func TestConfinedRequiredIsRefused(t *testing.T) {
	t.Parallel()
	pure := pureProgram(t)
	state, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	policy := sandbox.Policy{Mode: sandbox.Auto, Temp: true, Write: []string{state}, Read: []string{filepath.Dir(pure), "/proc"}, Run: []string{filepath.Dir(pure)}}
	host, err := sandbox.Command(t.Context(), policy, sandbox.Program{Path: pure, Env: []string{
		playVar + "=host", folderVar + "=" + state + "/sockets", modeVar + "=required", networkVar + "=full", programVar + "=" + pure,
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	var said strings.Builder
	host.Cmd.Stderr = &said
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	if !strings.Contains(said.String(), "cannot confine it as required: it lacks ") || !strings.Contains(said.String(), "namespaces: ") {
		t.Error(said.String())
	}
}

// A shipped plugin confines itself, and runs where it must be confined.
func TestShippedConfined(t *testing.T) {
	h, err := NewHost(Options{Folder: t.TempDir() + "/sockets", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h.self = pureProgram(t)
	s := shipped("stage")
	s.Policy = sandbox.Policy{Mode: sandbox.Required}
	p := &running{Plugin: h.Plugin(s)}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Run(ctx)
	}()
	defer func() { stop(); <-ended }()
	testwait.Until(t, patience, "it runs, or does not", func() bool { return p.state() != mcp.Starting })
	_, status := p.Listing()
	if layers, _ := layersFor(t, sandbox.Policy{Mode: sandbox.Auto}); len(layers) < 3 {
		if status.State == mcp.Ready {
			t.Error("it runs unconfined", p.Layers())
		}
		return
	}
	if status.State != mcp.Ready {
		t.Fatal(status)
	}
	if layers := strings.Join(p.Layers(), " "); !strings.Contains(layers, "landlock") || !strings.Contains(layers, "seccomp") {
		t.Error(layers)
	}
	if got, err := p.Call(t.Context(), callOf("wait", `{"m":"`+t.TempDir()+`/mark"}`)); err != nil || got.Fault == nil {
		t.Error("it wrote a file that it was not granted:", string(got.Result), err)
	}
}

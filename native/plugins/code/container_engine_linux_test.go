//go:build e2e

package code_test

import (
	"archive/tar"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native/plugins/code"
)

// engine is a container engine with a store of its own.
type engine struct {
	path  string // a script that is called like the engine
	image string
}

// newEngine returns Podman with an image of this machine's Python. Where there is none, or
// it may not run containers here, the test is skipped with what it says.
func newEngine(t *testing.T) engine {
	t.Helper()
	podman, err := exec.LookPath("podman")
	if err != nil {
		t.Skip("NOT CHECKED: containers, because there is no podman: ", err)
	}
	dir, err := os.MkdirTemp("", "tg") //nolint:usetesting // the store may need the engine to be removed
	must(t, err)
	global := []string{"--cgroup-manager=cgroupfs", "--storage-driver=vfs", "--root=" + dir + "/store", "--runroot=" + dir + "/run", "--tmpdir=" + dir + "/tmp"}
	if runc, err := exec.LookPath("runc"); err == nil { // crun does not know machines with both versions of cgroups
		global = append(global, "--runtime="+runc)
	}
	e := engine{path: filepath.Join(dir, "engine"), image: "localhost/python:test"}
	must(t, os.WriteFile(e.path, fmt.Appendf(nil, "#!/bin/sh\nexec %s %s \"$@\"\n", podman, strings.Join(global, " ")), 0o755)) //nolint:gosec // a program
	t.Cleanup(func() {
		_, _ = e.do(context.WithoutCancel(t.Context()), "rm", "--all", "--force")
		if err := os.RemoveAll(dir); err != nil {
			t.Logf("the store of the engine is left behind: %v", err)
		}
	})
	archive := filepath.Join(dir, "python.tar")
	pack(t, archive)
	if out, err := e.do(t.Context(), "import", archive, e.image); err != nil {
		t.Skipf("NOT CHECKED: containers, because podman makes no image here: %v\n%s", err, out)
	}
	// As the tool calls it, but for its limits of memory and processes.
	out, err := e.do(t.Context(), "run", "--rm", "--network=none", "--ulimit=nofile=256:256", "--ulimit=nproc=64:64", "--entrypoint=python3", e.image, "-I", "-S", "-c", "print(1)")
	if err != nil {
		t.Skipf("NOT CHECKED: containers, because podman runs none here: %v\n%s", err, out)
	}
	return e
}

// do runs the engine.
func (e engine) do(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.path, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// pack writes an archive with the Python of this machine and what it loads.
func pack(t *testing.T, to string) {
	t.Helper()
	python, err := filepath.EvalSymlinks(python(t))
	must(t, err)
	linked, err := exec.CommandContext(t.Context(), "ldd", python).Output()
	must(t, err)
	stdlib, err := exec.CommandContext(t.Context(), python, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))").Output()
	must(t, err)
	file, err := os.Create(to)
	must(t, err)
	defer file.Close()
	out := tar.NewWriter(file)
	add := func(name, from string) {
		data, err := os.ReadFile(from)
		must(t, err)
		must(t, out.WriteHeader(&tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: 0o755, Size: int64(len(data))}))
		_, err = out.Write(data)
		must(t, err)
	}
	must(t, out.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}))
	add("/usr/bin/python3", python)
	for word := range strings.FieldsSeq(string(linked)) {
		if strings.HasPrefix(word, "/") {
			add(word, word)
		}
	}
	root := strings.TrimSpace(string(stdlib))
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := d.Name(); {
		case d.IsDir() && (name == "test" || name == "tests" || name == "__pycache__" || name == "site-packages" || name == "dist-packages" || strings.HasPrefix(name, "config-")):
			return fs.SkipDir
		case d.Type().IsRegular() && (strings.HasSuffix(name, ".py") || strings.HasSuffix(name, ".so")):
			add(path, path)
		}
		return nil
	}))
	must(t, out.Close())
}

// TestContainerEngine runs code in containers of a real engine. No other test runs beside
// it: a run of theirs that ends takes what this one starts for its own orphans.
func TestContainerEngine(t *testing.T) {
	e := newEngine(t)
	secret := filepath.Join(folder(t), "secret")
	must(t, os.WriteFile(secret, []byte("hunter2"), 0o600))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)

	config := code.Config{
		Timeout: 30 * time.Second, MaxBytes: 1 << 20, Limits: code.Limits{Memory: 128 << 20, CPU: 20 * time.Second, Processes: 9},
		Container: code.Container{Runtime: e.path, Image: e.image, Args: []string{"--ulimit=nproc=64:64"}},
	}
	tool := open(t, config)["execute"]
	// Each start of a container takes a second or two, so that one program tries it all.
	program := "def attempt(do):\n    try:\n        return do()\n    except Exception as e:\n        return type(e).__name__\n" +
		"import os, socket, threading, time\nprint(os.getuid(), os.getcwd())\n"
	want := "65534 /tmp\n"
	for _, c := range []struct{ does, want string }{
		{"open('" + secret + "').read()", "FileNotFoundError"},
		{"socket.create_connection(('127.0.0.1', " + port + "), 2)", "ConnectionRefusedError"},
		{"open('/new', 'w')", "OSError"},
		{"open('/tmp/new', 'w').write('x')", "1"},
		{"os.setuid(0)", "PermissionError"},
		{"[threading.Thread(target=time.sleep, args=(1,)).start() for _ in range(20)]", "RuntimeError"},
	} {
		program += "print(attempt(lambda: " + c.does + "))\n"
		want += c.want + "\n"
	}
	if out := run(t, tool, program); out.Stdout != want {
		t.Errorf("%s\n%+v, want %s", program, out, want)
	}
	if out := run(t, tool, "b = b'x' * (512 << 20)\nprint(len(b))"); out.ExitCode == 0 {
		t.Errorf("it has more memory than its limit: %+v", out)
	}

	config.Timeout = 2 * time.Second
	if out := run(t, open(t, config)["execute"], "while True: pass"); !out.TimedOut && out.ExitCode == 0 {
		t.Errorf("an endless loop: %+v", out)
	}
	// The engine removes a container that was killed a moment after the call has ended.
	var left string
	if !testwait.Within(30*time.Second, func() bool {
		left, err = e.do(t.Context(), "ps", "--all", "--quiet")
		return err == nil && strings.TrimSpace(left) == ""
	}) {
		t.Errorf("containers are left behind: %s, %v", left, err)
	}
}

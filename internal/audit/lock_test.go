//go:build !windows

package audit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/audit"
)

// requireInUse requires that a log cannot be opened, and checks the named process.
func requireInUse(t *testing.T, path string, pid int) {
	t.Helper()
	l, err := audit.Open(path, audit.Options{Key: audit.TestKey})
	if err == nil {
		l.Close()
		t.Fatal("the log was opened twice")
	}
	in, ok := errors.AsType[*audit.InUseError](err)
	if !ok || in.PID != pid {
		t.Errorf("error %v, want one that names process %d", err, pid)
	}
	for _, want := range []string{path, fmt.Sprintf("process %d", pid), "toolgate.audit.path"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %s", err, want)
		}
	}
}

// A log has one writer, also after a rotation, a move and a reopen. A refused writer
// changes nothing, and readers are not refused.
func TestOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, audit.Options{Fsync: audit.FsyncAlways, RotateSize: 2048})
	before := read(t, path)
	requireInUse(t, path, os.Getpid())
	if after := read(t, path); string(after) != string(before) {
		t.Errorf("who was refused wrote %q", after)
	}
	for i := range 10 { // some of which begin another file
		add(t, l, fmt.Sprint(i))
	}
	if files, err := audit.Files(path); err != nil || len(files) < 2 {
		t.Errorf("files %q, %v", files, err)
	}
	requireInUse(t, path, os.Getpid())
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	requireInUse(t, path, os.Getpid())
	add(t, l, "last")
	if got := verify(t, path, nil); len(got.Findings) > 0 || got.Calls != 11 {
		t.Errorf("beside the writer: %+v", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, audit.Options{})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// Two names of a log have one lock.
func TestOneWriterBehindALink(t *testing.T) {
	path, alias := filepath.Join(t.TempDir(), "audit.jsonl"), filepath.Join(t.TempDir(), "alias.jsonl")
	if err := os.Symlink(path, alias); err != nil {
		t.Fatal(err)
	}
	l := open(t, alias, audit.Options{})
	requireInUse(t, path, os.Getpid())
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// heldAt names the log that a child of the test process holds.
const heldAt = "TOOLGATE_AUDIT_HELD"

// The log of a killed process is free at once.
func TestKilledWriter(t *testing.T) {
	if path := os.Getenv(heldAt); path != "" {
		l := open(t, path, audit.Options{Fsync: audit.FsyncAlways})
		if err := l.Begin(entry("cut off")); err != nil {
			t.Fatal(err)
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the kill, or the end of the test
		return
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestKilledWriter$")
	child.Env = append(os.Environ(), heldAt+"="+path)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	requireInUse(t, path, child.Process.Pid)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	l := open(t, path, audit.Options{})
	if got := l.Stats(); got.Unknown != 1 {
		t.Errorf("stats %+v", got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A log in a folder without write permission is still written.
func TestWriterWithoutLock(t *testing.T) {
	if !alone(t) {
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700) //nolint:errcheck // so that it can be removed
	l := open(t, path, audit.Options{Fsync: audit.FsyncAlways})
	add(t, l, "one")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path + ".lock"); err == nil {
		t.Error("there is a lock")
	}
}

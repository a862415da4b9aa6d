//go:build !windows

package admin

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tg") //nolint:usetesting // the path of t.TempDir is too long for a socket on some systems
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestSocketIsPrivate(t *testing.T) {
	old := syscall.Umask(0) // the worst case
	defer syscall.Umask(old)
	path := filepath.Join(shortDir(t), "s.sock")
	for range 2 { // the second time in the place of the first
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		l.(*checked).Listener.(*net.UnixListener).SetUnlinkOnClose(false)
		l.Close()
	}
	if now := syscall.Umask(0); now != 0 {
		t.Errorf("the umask is left at %o", now)
	}
	if _, err := Listen(filepath.Join(path, "below")); err == nil {
		t.Error("a socket below a socket")
	}
	full := filepath.Join(shortDir(t), "dir")
	if err := os.MkdirAll(filepath.Join(full, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(full); err == nil {
		t.Error("a folder with files was replaced")
	}
}

func TestSamePeer(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if samePeer(a) {
		t.Error("a connection that says nothing about its peer is trusted")
	}
	l, err := net.Listen("unix", filepath.Join(shortDir(t), "s.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	own, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if !samePeer(accepted) {
		t.Error("our own uid is refused")
	}
	accepted.Close()
	if samePeer(accepted) {
		t.Error("a closed connection is trusted")
	}
}

//go:build unix

package files_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/native/plugins/files"
)

// Nothing but regular files is opened, and no open waits.
func TestSpecialFiles(t *testing.T) {
	dir := folder(t)
	put(t, dir, "plain")
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must(t, os.Symlink("pipe", filepath.Join(dir, "to-pipe")))
	t.Chdir(dir) // the name of a socket is short
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", "socket")
	must(t, err)
	defer l.Close()
	tree := open(t, files.Rules{Roots: []string{dir}, Write: []string{dir}})
	for _, name := range []string{"pipe", "to-pipe", "socket"} {
		path := filepath.Join(dir, name)
		_, err := tree.Open(path)
		refused(t, name, err, "only regular files")
		_, err = tree.Write(path, files.Change{})
		refused(t, "write "+name, err, "only regular files")
		refused(t, "delete "+name, tree.Remove(path), "only regular files")
		_, err = tree.OpenDir(path)
		refused(t, "list "+name, err, "a folder is needed")
	}
}

// A root of everything gives neither what processes show of themselves nor devices.
func TestSystem(t *testing.T) {
	dir := folder(t)
	put(t, dir, "file")
	must(t, os.Symlink("/proc/self/environ", filepath.Join(dir, "environ")))
	must(t, os.Symlink("/proc/self", filepath.Join(dir, "self")))
	tree := open(t, files.Rules{Roots: []string{"/"}, Write: []string{"/"}})
	if _, err := read(tree, filepath.Join(dir, "file")); err != nil {
		t.Error(err)
	}
	must(t, tree.Remove(filepath.Join(dir, "file")))
	paths := []string{"/dev/null", "/dev/zero", "/dev/tty", "/dev/mem"}
	if runtime.GOOS == "linux" {
		pid := fmt.Sprint(os.Getpid())
		paths = append(paths, "/proc/self/environ", "/proc/"+pid+"/environ", "/proc/self/mem", "/proc/self/maps", "/proc/self/cwd/special_unix_test.go",
			"/proc/self/root/etc/passwd", "/proc/self/fd/0", "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/sys/kernel/uevent_helper", "/sys/power/state",
			filepath.Join(dir, "environ"), filepath.Join(dir, "self", "environ"), filepath.Join(dir, "self", "status"))
	}
	for _, path := range paths {
		if text, err := read(tree, path); err == nil {
			t.Errorf("%s: %d bytes", path, len(text))
		}
		if _, err := tree.Write(path, files.Change{Data: []byte("x")}); err == nil {
			t.Errorf("%s was written", path)
		}
		if err := tree.Remove(path); err == nil {
			t.Errorf("%s was deleted", path)
		}
	}
	for _, path := range []string{"/proc", "/proc/self/fd", "/proc/self/task", "/dev", "/sys/kernel"} {
		if d, err := tree.OpenDir(path); err == nil {
			d.Close()
			t.Errorf("%s was listed", path)
		}
	}
}

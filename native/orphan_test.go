//go:build !windows

package native

import (
	"bufio"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/testwait"
)

func itoa(n int) string { return strconv.Itoa(n) }

// alive tells whether a process is there and is more than a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// No plugin outlives a gateway that is killed, and what is left of its sockets is
// removed by the next one.
func TestHostIsKilled(t *testing.T) {
	for _, mode := range []sandbox.Mode{sandbox.Off, sandbox.Auto} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			hostIsKilled(t, mode)
		})
	}
}

func hostIsKilled(t *testing.T, mode sandbox.Mode) {
	folder, temp := filepath.Join(t.TempDir(), "sockets"), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	long := "864" + itoa(os.Getpid()) + "." + itoa(len(mode))
	host := exec.Command(self)
	host.Env = []string{
		playVar + "=host", folderVar + "=" + folder, modeVar + "=" + string(mode), programVar + "=" + pureProgram(t), "TMPDIR=" + temp, startVar + "=" + long,
	}
	host.Stderr = os.Stderr
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || !alive(pid) {
		t.Fatal(line, err)
	}
	if runtime.GOOS == "linux" && len(sleeping(t, long)) != 1 {
		t.Error("the plugin did not start a program; the test is no use")
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	testwait.Until(t, patience, "the plugin ends with its gateway", func() bool { return !alive(pid) })
	defer func() {
		for _, pid := range sleeping(t, long) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}()
	testwait.Until(t, patience, "what the plugin has started ends with it", func() bool { return len(sleeping(t, long)) == 0 })
	if entries, err := os.ReadDir(temp); err != nil || len(entries) > 0 {
		t.Error("left among the temporary files:", entries, err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) == 0 {
		t.Fatal("a killed gateway left nothing to be cleaned; the test is no use", err)
	}
	h, err := NewHost(Options{Folder: folder, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 0 {
		t.Error("left: ", entries, err)
	}
	info, err := os.Stat(h.opts.Folder)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info.Mode(), err)
	}
}

// sleeping are the processes that sleep for so long.
func sleeping(t *testing.T, long string) []int {
	t.Helper()
	var out []int
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		line, err := os.ReadFile(path)
		if err != nil || string(line) != "/bin/sleep\x00"+long+"\x00" {
			continue // or it has ended meanwhile
		}
		if pid, err := strconv.Atoi(strings.Split(path, "/")[2]); err == nil && alive(pid) {
			out = append(out, pid)
		}
	}
	return out
}

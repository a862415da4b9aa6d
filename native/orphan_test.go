//go:build !windows

package native

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
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
	folder := filepath.Join(t.TempDir(), "sockets")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.Command(self)
	host.Env = []string{playVar + "=host", folderVar + "=" + folder}
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
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	eventually(t, "the plugin ends with its gateway", func() bool { return !alive(pid) })
	if entries, err := os.ReadDir(folder); err != nil || len(entries) == 0 {
		t.Fatal("a killed gateway left nothing to be cleaned; the test is no use", err)
	}
	p := run(t, specOf("plain"))
	p.await(t, mcp.Ready)
	h, err := NewHost(Options{Folder: folder, Logger: p.Plugin.log})
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

package cli

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/listen"
)

// TestPrivilegedPort listens on a port that only root may have, without that right.
func TestPrivilegedPort(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		t.Fatal(err)
	}
	if first, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || first <= 80 {
		t.Skipf("on this system everybody may listen on port 80: %s, %v", text, err)
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var rights [2]unix.CapUserData
		if err := unix.Capget(&header, &rights[0]); err != nil {
			done <- err
			return
		}
		rights[0].Effective &^= 1 << unix.CAP_NET_BIND_SERVICE
		if err := unix.Capset(&header, &rights[0]); err != nil {
			done <- err
			return
		}
		c := &config.Config{}
		c.Toolgate.Listen.HTTP = "127.0.0.1:80"
		l, err := listen.Open(t.Context(), c)
		if err == nil {
			l.Close()
		}
		done <- err
	}()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "this user may not listen on 127.0.0.1:80") || !strings.Contains(err.Error(), "--listen 127.0.0.1:7777") {
		t.Errorf("%v", err)
	}
}

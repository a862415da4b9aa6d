//go:build e2e && !windows

package cli

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
)

// The gateway ends within 10 s whatever is open, and with it all it started.
func TestShutdownWhileBusy(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("child=" + h.path("child"))}, nil)
	p, url := h.up(t)
	pid := h.pid(t, "a")
	text, err := os.ReadFile(h.path("child"))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(string(text))
	if err != nil || !alive(pid) || !alive(child) {
		t.Fatalf("processes %d and %d, %v", pid, child, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := newClient(t)
	client.Timeout = 0
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/sse", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	stream, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if line, err := bufio.NewReader(stream.Body).ReadString('\n'); err != nil || line != "event: endpoint\n" {
		t.Fatalf("stream: %q, %v", line, err)
	}
	joined := h.stdioClient(t)
	call := h.start(t, "call", "a__slow", "file="+h.path("began"), "wait="+h.path("never"), "--file", h.file)
	testwait.Until(t, patience, "the call is at the server", func() bool { _, err := os.Stat(h.path("began")); return err == nil })

	asked := time.Now()
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(asked); took > 10*time.Second {
		t.Errorf("ended after %v", took)
	}
	for _, pid := range []int{pid, child} { // a killed one takes a moment to be gone
		testwait.Until(t, patience, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
	}
	if code := call.wait(t); code == exitOK {
		t.Errorf("the call that was cut off has exit code %d: %s", code, call.out)
	}
	joined.says(t, joined.err, "this client continues")
	if code := joined.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("the client that went on: exit code %d", code)
	}
	if left := h.sockets(t); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

//go:build !windows

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// slowCall makes a call that ends when a file is there, and returns once its
// server has it. answer gets what it was answered.
func slowCall(t *testing.T, h *home, url string) (answer chan string, finish func()) {
	t.Helper()
	began, wait := h.path("began"), h.path("go")
	answer = make(chan string, 1)
	client := newClient(t)
	params, err := json.Marshal(map[string]any{"name": "a__slow", "arguments": map[string]string{"file": began, "wait": wait}})
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the call
		_, body := post(t, client, url, "", mcp.MethodToolsCall, "a__slow", strings.TrimSuffix(strings.TrimPrefix(string(params), "{"), "}")+",")
		answer <- string(body)
	}()
	testwait.Until(t, patience, "the call is at its server", func() bool {
		_, err := os.Stat(began)
		return err == nil
	})
	return answer, func() {
		if err := os.WriteFile(wait, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// entries are the lines of the audit log that are about ended calls and changes.
func (h *home) entries(t *testing.T) []map[string]any {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, "state", "*", "audit.jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("audit logs: %v, %v", found, err)
	}
	return auditLines(t, found[0])
}

// refused tells whether nothing listens at a URL any more.
func refused(t *testing.T, url string) bool {
	t.Helper()
	resp, err := newClient(t).Get(url + "/livez")
	if err == nil {
		resp.Body.Close()
	}
	return err != nil
}

// A gateway that is told to end takes nothing new and lets a call finish.
func TestDrain(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("slow", "pid")}, map[string]any{"limits": map[string]any{"drain": "1m"}})
	p, url := h.up(t)
	child := h.pid(t, "a")
	answer, finish := slowCall(t, h, url)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "nothing listens", func() bool { return refused(t, url) })
	select {
	case got := <-answer:
		t.Fatalf("answered before its server was: %s", got)
	case <-p.ended:
		t.Fatal("ended before the call")
	default:
	}
	if !alive(child) {
		t.Fatal("the server was ended before its call")
	}
	finish()
	if got := <-answer; !strings.Contains(got, `"waited"`) {
		t.Errorf("answered %s", got)
	}
	if code := p.wait(t); code != exitOK {
		t.Errorf("exit code %d: %s", code, p.err)
	}
	if alive(child) {
		t.Error("the server lives on")
	}
	if left := h.sockets(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	all := h.entries(t)
	if last := all[len(all)-1]; last["name"] != "a__slow" || last["outcome"] != "ok" {
		t.Errorf("audit: %v", last)
	}
}

// What does not end in time is ended, with an answer that says so and an entry in
// the audit log; so it is at once when a second signal comes.
func TestDrainEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		drain  string
		second bool
	}{"the time is over": {"50ms", false}, "a second signal": {"1h", true}, "no time at all": {"0s", false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.write(t, servers{"a": fake("slow", "pid")}, map[string]any{"limits": map[string]any{"drain": tt.drain}})
			p, url := h.up(t)
			child := h.pid(t, "a")
			answer, _ := slowCall(t, h, url)
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if tt.second {
				testwait.Until(t, patience, "nothing listens", func() bool { return refused(t, url) })
				again := time.NewTicker(20 * time.Millisecond) // it may not wait for one at once
				defer again.Stop()
				testwait.Until(t, patience, "the second signal ends the call", func() bool {
					select {
					case <-again.C:
						_ = p.cmd.Process.Signal(syscall.SIGTERM)
					default:
					}
					return len(answer) > 0
				})
			}
			if got := <-answer; !strings.Contains(got, `"shutting_down"`) || !strings.Contains(got, "check before you repeat it") {
				t.Errorf("answered %s", got)
			}
			if code := p.wait(t); code != exitOK {
				t.Errorf("exit code %d", code)
			}
			if alive(child) {
				t.Error("the server lives on")
			}
			all := h.entries(t)
			if last := all[len(all)-1]; last["name"] != "a__slow" || last["code"] != "shutting_down" {
				t.Errorf("audit: %v", last)
			}
		})
	}
}

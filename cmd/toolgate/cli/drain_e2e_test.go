//go:build e2e && !windows

package cli

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
)

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

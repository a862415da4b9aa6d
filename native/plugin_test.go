//go:build !windows

package native

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native/toolapi"
)

func TestList(t *testing.T) {
	p := run(t, specOf("plain"))
	p.await(t, mcp.Ready)
	listing, _ := p.Listing()
	item := listing.Find(mcp.Tool, "echo")
	want := `{"name":"echo","title":"Echo","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false},` +
		`"annotations":{"destructiveHint":false,"idempotentHint":false,"openWorldHint":false,"readOnlyHint":true}}`
	if item == nil {
		t.Fatal("echo is not listed")
	}
	if diff := cmp.Diff(want, string(item.Raw)); diff != "" {
		t.Error(diff)
	}
	if got := string(listing.ServerInfo); got != `{"name":"play","version":"1.2.3"}` {
		t.Error(got)
	}
	facts, ok := p.Facts("echo")
	wantFacts := Facts{ReadOnly: true, Category: "text", Risk: toolapi.Low, Timeout: 7 * time.Second, RatePerHour: 11}
	if diff := cmp.Diff(wantFacts, facts); !ok || diff != "" {
		t.Error(ok, diff)
	}
	if facts, _ := p.Facts("say"); facts.Risk != toolapi.High || facts.Destructive {
		t.Errorf("what says nothing of its risk: %+v", facts)
	}
	if err := p.Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCall(t *testing.T) {
	for name, mtls := range map[string]bool{"authenticated": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			s := specOf("plain")
			s.AutoMTLS = mtls
			p := run(t, s)
			// The plugin is still starting: the call waits for it.
			for _, c := range []struct{ tool, args, want string }{
				{"echo", `{"text":"12345678901234567890.10"}`, `{"content":[{"type":"text","text":"hi", "x": 1.50}],"structuredContent":{"text":"12345678901234567890.10"}}`},
				{"say", `{"text":"a \"b\""}`, `{"content":[{"type":"text","text":"a \"b\""}]}`},
				{"problem", `{}`, `{"content":[{"type":"text","text":"The path \"/etc\" is outside."}],"isError":true}`},
			} {
				got, err := p.Call(t.Context(), callOf(c.tool, c.args))
				if err != nil {
					t.Fatal(c.tool, err)
				}
				if diff := cmp.Diff(c.want, string(got.Result)); diff != "" {
					t.Error(c.tool, diff)
				}
			}
			got, err := p.Call(t.Context(), callOf("none", "{}"))
			if err != nil || got.Fault == nil || got.Fault.Code != mcp.CodeInvalidParams {
				t.Error("a tool that is not there:", got, err)
			}
		})
	}
}

func TestNotifications(t *testing.T) {
	p := run(t, specOf("plain"))
	call := callOf("say", `{"text":"x"}`)
	var got []string
	call.Progress, call.LogLevel = true, "info"
	call.Notify = func(method string, params []byte) { got = append(got, method+" "+string(params)) }
	if _, err := p.Call(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`notifications/progress {"progress":1,"total":2,"message":"half"}`,
		`notifications/message {"level":"warning","logger":"say","data":"careful"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFailures(t *testing.T) {
	s := specOf("plain")
	s.Result = 8 << 20
	p := run(t, s)
	p.await(t, mcp.Ready)
	pid := p.PID()
	for _, tool := range []string{"fail", "panic"} {
		got, err := p.Call(t.Context(), callOf(tool, "{}"))
		if err != nil || got.Fault == nil || got.Fault.Code != mcp.CodeInternal {
			t.Errorf("%s: %v, %v", tool, got, err)
		} else if strings.Contains(got.Fault.Message, "secret") {
			t.Errorf("%s tells the caller what is wrong inside: %s", tool, got.Fault.Message)
		}
	}
	_, err := p.Call(t.Context(), callOf("large", "{}"))
	if f, ok := errors.AsType[*mcp.Failure](err); !ok || f.Kind != mcp.FailTooLarge {
		t.Error("64 MB:", err)
	}
	if p.PID() != pid {
		t.Error("the process is another after a panic")
	}
	testwait.Until(t, patience, "the log says what failed", func() bool { return strings.Contains(p.log.String(), "a secret detail") })
}

// What a plugin prints while it serves can be read like what it printed before.
func TestPrints(t *testing.T) {
	p := run(t, specOf("plain"))
	if _, err := p.Call(t.Context(), callOf("print", `{"text":"model loaded"}`)); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "both lines", func() bool {
		lines, _ := p.Stderr()
		return slices.Contains(lines, "out: model loaded") && slices.Contains(lines, "err: model loaded")
	})
}

// A process that ends during a call answers it at once, and is started again.
func TestEndsDuringCall(t *testing.T) {
	t.Parallel()
	p := run(t, specOf("plain"))
	p.await(t, mcp.Ready)
	for _, how := range []string{"exit", "kill"} {
		pid := p.PID()
		call := callOf("exit", "{}")
		if how == "kill" {
			mark := filepath.Join(t.TempDir(), "mark")
			call = callOf("wait", `{"text":"`+mark+`"}`)
			go func() {
				testwait.Until(t, patience, "the call runs", func() bool { return holds(mark, "running") })
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}()
		}
		_, err := p.Call(t.Context(), call)
		if f, ok := errors.AsType[*mcp.Failure](err); !ok || f.Kind != mcp.FailUnavailable || !f.Delivered {
			t.Fatalf("%s: %v", how, err)
		}
		testwait.Until(t, patience, "another process serves", func() bool { return p.PID() != 0 && p.PID() != pid })
		if got, err := p.Call(t.Context(), callOf("say", `{"text":"again"}`)); err != nil || !strings.Contains(string(got.Result), "again") {
			t.Fatal(got, err)
		}
		if alive(pid) {
			t.Error("the process before is still there")
		}
	}
}

func TestCancellation(t *testing.T) {
	p := run(t, specOf("plain"))
	p.await(t, mcp.Ready)
	mark := filepath.Join(t.TempDir(), "mark")
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the client has left")
	go func() {
		testwait.Until(t, patience, "the call runs", func() bool { return holds(mark, "running") })
		cancel(left)
	}()
	_, err := p.Call(ctx, callOf("wait", `{"text":"`+mark+`"}`))
	if !errors.Is(err, left) {
		t.Error(err)
	}
	testwait.Until(t, patience, "the tool hears of it", func() bool { return holds(mark, "canceled") })
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	p := run(t, specOf("plain"))
	p.await(t, mcp.Ready)
	mark := filepath.Join(t.TempDir(), "mark")
	call := callOf("wait", `{"text":"`+mark+`"}`)
	call.Timeout = time.Second
	_, err := p.Call(t.Context(), call)
	if f, ok := errors.AsType[*mcp.Failure](err); !ok || f.Kind != mcp.FailTimeout {
		t.Error(err)
	}
	testwait.Until(t, patience, "the tool hears of it", func() bool { return holds(mark, "canceled") })
	// Progress keeps a call alive, but not for ever.
	call = callOf("steps", "{}")
	call.Timeout, call.Idle = 350*time.Millisecond, 5*time.Second
	if _, err := p.Call(t.Context(), call); err != nil {
		t.Error("a call that reports progress:", err)
	}
	call.Hard = 100 * time.Millisecond
	_, err = p.Call(t.Context(), call)
	if f, ok := errors.AsType[*mcp.Failure](err); !ok || f.Kind != mcp.FailTimeout {
		t.Error("behind the hard end:", err)
	}
}

// The deadline of a caller is no failure of the plugin, also at the very moment.
func TestCallersInAHurry(t *testing.T) {
	p := run(t, specOf("plain"))
	p.await(t, mcp.Ready)
	hurry := errors.New("the caller's own deadline")
	for range 50 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, hurry)
		if _, err := p.Call(ctx, callOf("wait", `{"text":"`+filepath.Join(t.TempDir(), "mark")+`"}`)); !errors.Is(err, hurry) {
			t.Error(err)
		}
		cancel()
	}
}

// What cannot be started is failed with what it said last, and nothing is left.
func TestDoesNotStart(t *testing.T) {
	wrong := specOf("plain")
	wrong.SHA256 = strings.Repeat("ab", 32)
	refusing := specOf("plain")
	refusing.Config = []byte(`{"refuse":"no such city"}`)
	missing := specOf("plain")
	missing.Path += ".gone"
	mute := specOf("mute")
	mute.Timeouts.Start = 300 * time.Millisecond
	for name, c := range map[string]struct {
		spec Spec
		want []string
	}{
		"checksum":      {wrong, []string{"checksum", "not the configured one"}},
		"other version": {specOf("other version"), []string{"another version of the protocol", "Plugin version: 7"}},
		"noise":         {specOf("noise"), []string{"printed something else than the handshake", "Loading the model", "standard error"}},
		"dies":          {specOf("dies"), []string{"no licence found", "giving up"}},
		"refuses":       {refusing, []string{"initialize it", "no such city"}},
		"missing":       {missing, []string{"open the program of the plugin"}},
		"mute":          {mute, []string{"300ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := run(t, c.spec)
			testwait.Until(t, patience, "it is given up for now", func() bool { s := p.state(); return s == mcp.Failed || s == mcp.Reconnecting })
			_, status := p.Listing()
			for _, want := range c.want {
				if !strings.Contains(status.Reason, want) {
					t.Errorf("the reason lacks %q: %s", want, status.Reason)
				}
			}
			if strings.ContainsAny(status.Reason, "\x1b\n") {
				t.Errorf("the reason is not one clean line: %q", status.Reason)
			}
			_, err := p.Call(t.Context(), callOf("say", "{}"))
			if f, ok := errors.AsType[*mcp.Failure](err); !ok || f.Kind != mcp.FailUnavailable || f.Delivered {
				t.Error(err)
			}
			if left := p.left(t); len(left) > 0 {
				t.Error("left behind:", left)
			}
		})
	}
}

func TestFailsForGood(t *testing.T) {
	t.Parallel()
	p := run(t, specOf("plain"))
	p.await(t, mcp.Ready)
	var killed atomic.Int32
	testwait.Until(t, patience, "it is given up", func() bool {
		if pid := p.PID(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			killed.Add(1)
		}
		return p.state() == mcp.Failed
	})
	if n := killed.Load(); n < mostEnds {
		t.Errorf("given up after %d ends", n)
	}
}

// A process that is there and does nothing is ended and started again.
func TestHangs(t *testing.T) {
	t.Parallel()
	p := run(t, specOf("plain"), looksOften)
	p.await(t, mcp.Ready)
	pid := p.PID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "another process serves", func() bool { return p.PID() != 0 && p.PID() != pid })
	testwait.Until(t, patience, "the one before is gone", func() bool { return !alive(pid) })
}

func TestEnvironment(t *testing.T) {
	t.Setenv("CANARY_SECRET", "canary-of-the-host")
	s := specOf("plain")
	s.Env = append(s.Env, "GIVEN=1")
	p := run(t, s)
	got, err := p.Call(t.Context(), callOf("environment", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	env := string(got.Result)
	if strings.Contains(env, "canary") || strings.Contains(env, "HOME=") {
		t.Error("the environment of the gateway is in ", env)
	}
	if !strings.Contains(env, "GIVEN=1") {
		t.Error("what is given is not in ", env)
	}
	raw, err := os.ReadFile("/proc/" + itoa(p.PID()) + "/environ")
	if err == nil && strings.Contains(string(raw), "canary") {
		t.Error("the process was started with the environment of the gateway")
	}
}

// The program that runs is the one that was verified, whatever is done to its
// file meanwhile.
func TestRunsWhatWasVerified(t *testing.T) {
	s := specOf("plain")
	whole, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	s.Path = filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(s.Path, whole, 0o700); err != nil {
		t.Fatal(err)
	}
	open, err := program(&s)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	cmd := unconfined(&s, open)
	if err := os.WriteFile(s.Path, []byte("#!/bin/sh\necho replaced\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd.Args, cmd.Env = []string{"plugin", "-test.list=."}, nil
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "replaced") || !strings.Contains(string(out), "TestRunsWhatWasVerified") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Where no path of a socket fits, a program outside of the gateway does not start
// and says so; what the gateway ships needs none.
func TestNoPlaceForSockets(t *testing.T) {
	p := run(t, specOf("plain"), func(o *Options) { o.NoSockets = errors.New("the folder has too long a name") })
	testwait.Until(t, patience, "it is given up", func() bool { return p.state() == mcp.Failed })
	if _, status := p.Listing(); !strings.Contains(status.Reason, "too long a name") {
		t.Errorf("the reason is %q", status.Reason)
	}
}

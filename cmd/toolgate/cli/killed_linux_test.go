//go:build e2e

package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/fakeserver"
	"github.com/toolgate/toolgate/internal/testwait"
)

// killedTime is how long everything may take to end that a killed gateway has started, on a
// machine that is busy.
const killedTime = 10 * time.Second

// killMark is the variable by which the processes of a test are found, whoever their
// parent is.
const killMark = "TG_KILL_TEST"

// stubborn is a server in a shell that ends neither with its input nor when it is told
// to, beside a process in its group that does not either. The mark finds them all.
func (h *home) stubborn(t *testing.T, mark string) map[string]any {
	t.Helper()
	script := h.keep(t, "stubborn.sh", fmt.Sprintf(`
trap '' TERM HUP INT
sh -c 'trap "" TERM HUP INT; while :; do sleep 600; done' </dev/null >/dev/null 2>&1 &
%q %s
while :; do sleep 600; done
`, os.Args[0], fakeserver.Command), 0o700)
	return map[string]any{"command": "/bin/sh", "args": []string{script}, "env": map[string]string{killMark: mark}}
}

// marked are the processes that have a mark in their environment and run.
func marked(t *testing.T, mark string) (out []int) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(killMark+"="+mark)) {
			continue // or it has ended
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && alive(pid) {
			out = append(out, pid)
		}
	}
	return out
}

// statOf reads the parent and the start time of a process.
func statOf(pid int) (parent int, start string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, ""
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	parent, _ = strconv.Atoi(fields[1])
	return parent, fields[19]
}

// descendants are all processes below one, with their start times.
func descendants(t *testing.T, top int) map[int]string {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	parents, starts, out := map[int]int{}, map[int]string{}, map[int]string{}
	for _, path := range found {
		if pid, err := strconv.Atoi(filepath.Base(path)); err == nil {
			parents[pid], starts[pid] = statOf(pid)
		}
	}
	for pid := range parents {
		for at := parents[pid]; at != 0; at = parents[at] {
			if at == top {
				out[pid] = starts[pid]
				break
			}
		}
	}
	return out
}

// guardianOf is the guardian of a gateway; 0 is none.
func guardianOf(t *testing.T, gateway int) int {
	t.Helper()
	for pid := range descendants(t, gateway) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.HasPrefix(line, []byte("toolgate-guardian\x00")) && alive(pid) {
			return pid
		}
	}
	return 0
}

// gone waits until none of these processes runs, and fails when that takes too long.
func gone(t *testing.T, what string, all map[int]string) {
	t.Helper()
	var left []string
	if !testwait.Within(killedTime, func() bool {
		left = nil
		for pid, start := range all {
			if _, now := statOf(pid); now == start && alive(pid) {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				left = append(left, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
			}
		}
		return len(left) == 0
	}) {
		killAll(all)
		t.Fatalf("%s: not within %v, these run:\n%s", what, killedTime, strings.Join(left, "\n"))
	}
}

// killAll kills what is left of these processes. They are stopped first, so that none
// starts another one in the place of one that was killed.
func killAll(all map[int]string) {
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for pid, start := range all {
			if _, now := statOf(pid); now == start {
				_ = syscall.Kill(pid, sig)
			}
		}
	}
}

// manyChildren starts a gateway with a stubborn server, native tools, and two commands
// in the middle of their calls, one of them confined. It returns all below it.
func manyChildren(t *testing.T) (h *home, p *process, all map[int]string) {
	t.Helper()
	h = newHome(t)
	hold := h.keep(t, "hold.sh", `#!/bin/sh
trap '' TERM HUP INT
sh -c 'trap "" TERM HUP INT; while :; do sleep 600; done' </dev/null >/dev/null 2>&1 &
while :; do sleep 600; done
`, 0o700)
	command := func(name, mode string, args ...any) map[string]any {
		return map[string]any{"name": name, "type": "command", "sandbox": mode, "args": args, "input_schema": map[string]any{"type": "object"}}
	}
	h.write(t, servers{"a": h.stubborn(t, rand.Text()), "b": fake("child=" + h.path("child.pid"))}, map[string]any{
		"native": map[string]any{"util": map[string]any{}, "fs": map[string]any{"roots": []string{h.dir}}},
		"tools":  []any{command("hold", "off", hold), command("confined", "auto", "/bin/sleep", "600")},
	})
	p, _ = h.up(t)
	for _, tool := range []string{"tools__hold", "tools__confined"} {
		h.start(t, "call", tool, "--file", h.file)
	}
	// The stubborn server with the fake one and its other process, each with a sleep;
	// the fake one with a child; two groups of tools; a command with another process
	// and their sleeps; a confined sleep; the guardian.
	testwait.Until(t, patience, "everything runs", func() bool {
		all = descendants(t, p.cmd.Process.Pid)
		return len(all) >= 14 && guardianOf(t, p.cmd.Process.Pid) != 0
	})
	return h, p, all
}

// Nothing that a gateway has started outlives a kill -9 of the gateway.
func TestNothingOutlivesAKilledGateway(t *testing.T) {
	t.Parallel()
	_, p, all := manyChildren(t)
	p.stop(t, syscall.SIGKILL)
	gone(t, "the gateway was killed", all)
}

// A program of an agent, which the group "code" has started without a namespace, ends
// with all that it has started: that group has a guardian of its own, which it keeps.
func TestNoProgramOutlivesAKilledGateway(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, map[string]any{"native": map[string]any{"code": map[string]any{"sandbox": "off"}}})
	p, _ := h.up(t)
	const program = `
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["/bin/sh", "-c", "setsid sleep 600 & wait; sleep 600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep(600)`
	// A run that ends leaves the guardian alone.
	for range 2 {
		h.ok(t, "call", "code__execute", "code=print(1)", "--file", h.file)
	}
	h.start(t, "call", "code__execute", "code="+program, "--file", h.file)
	var all map[int]string
	guardian := 0
	testwait.Until(t, patience, "everything runs", func() bool {
		all = descendants(t, p.cmd.Process.Pid)
		guardian = guardianOf(t, p.cmd.Process.Pid)
		return len(all) == 5 && guardian != 0
	})
	if parent, _ := statOf(guardian); parent == p.cmd.Process.Pid {
		t.Error("the guardian is the gateway's; the test is no use")
	}
	p.stop(t, syscall.SIGKILL)
	gone(t, "the gateway was killed", all)
}

// When the guardian is killed with the gateway, the system still ends what the gateway
// itself has started.
func TestGuardianAndGatewayAreKilled(t *testing.T) {
	t.Parallel()
	_, p, all := manyChildren(t)
	gateway := p.cmd.Process.Pid
	direct := map[int]string{}
	for pid, start := range all {
		if parent, _ := statOf(pid); parent == gateway {
			direct[pid] = start
		}
	}
	if len(direct) < 7 {
		t.Fatalf("%d processes were started by the gateway itself", len(direct))
	}
	if err := syscall.Kill(guardianOf(t, gateway), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.stop(t, syscall.SIGKILL)
	gone(t, "both were killed", direct)
	killAll(all) // nobody else is left to do it
}

// Another guardian takes the place of one that was killed, says so once, and ends
// everything just as well.
func TestKilledGuardianIsReplaced(t *testing.T) {
	t.Parallel()
	_, p, all := manyChildren(t)
	gateway := p.cmd.Process.Pid
	first := guardianOf(t, gateway)
	for range 2 {
		was := guardianOf(t, gateway)
		if err := syscall.Kill(was, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, patience, "there is another guardian", func() bool {
			pid := guardianOf(t, gateway)
			return pid != 0 && pid != was
		})
	}
	if alive(first) {
		t.Error("the first guardian runs")
	}
	p.stop(t, syscall.SIGKILL)
	gone(t, "the gateway was killed", all)
	if n := strings.Count(p.err.String(), "its guardian does not run"); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, p.err)
	}
}

// A gateway that ends by itself leaves neither a guardian nor a zombie, and one
// without children has no guardian.
func TestGuardianEndsWithTheGateway(t *testing.T) {
	t.Parallel()
	_, p, all := manyChildren(t)
	for pid := range all {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(text), ") Z ") {
			t.Errorf("a zombie: %s", text)
		}
	}
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for pid, start := range all {
		if _, now := statOf(pid); now == start {
			t.Errorf("process %d is there still", pid)
		}
	}

	h := newHome(t)
	h.write(t, servers{}, map[string]any{"native": map[string]any{"util": map[string]any{}}})
	p, _ = h.up(t)
	if pid := guardianOf(t, p.cmd.Process.Pid); pid != 0 {
		t.Errorf("a gateway whose tools start nothing has guardian %d", pid)
	}
}

// Whenever a gateway is killed while it starts its servers, none is left.
func TestKilledWhileServersStart(t *testing.T) {
	t.Parallel()
	mark := rand.Text()
	h := newHome(t)
	all := servers{}
	for i := range 6 {
		all["s"+strconv.Itoa(i)] = h.stubborn(t, mark)
	}
	h.write(t, all, nil)
	seen := 0
	const rounds = 10
	for round := range rounds {
		p := h.start(t, "up", h.file)
		p.says(t, p.out, `.`) // it has begun
		if round == 0 {       // however slow the machine is
			testwait.Until(t, patience, "a server starts", func() bool { return len(marked(t, mark)) > 0 })
		} else {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(mathrand.IntN(250))*time.Millisecond)
			<-ctx.Done()
			cancel()
		}
		if len(marked(t, mark)) > 0 {
			seen++
		}
		p.stop(t, syscall.SIGKILL)
		end := time.Now().Add(killedTime)
		for left := marked(t, mark); len(left) > 0; left = marked(t, mark) {
			if time.Now().After(end) {
				for _, pid := range left {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
				t.Fatalf("processes %v are left", left)
			}
		}
	}
	if seen == 0 {
		t.Errorf("in none of %d rounds a server had been started; the test is of little use", rounds)
	}
}

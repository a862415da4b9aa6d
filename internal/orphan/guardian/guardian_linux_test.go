package guardian

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// tables are guardians as a kernel has them that reaches groups by a descriptor, and
// as an older one.
var tables = map[string]func(*table){
	"descriptor": func(*table) {},
	"number": func(t *table) {
		for _, c := range t.children {
			c.close()
		}
	},
}

// sleeper starts a process that leads a group.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func told(id, pid int, start uint64) []byte {
	return fmt.Appendf(nil, "%s %d %d %d", Started, id, pid, start)
}

// killed waits for the end of a process and reports whether it was killed. One that
// runs on is killed by another signal.
func killed(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	_ = cmd.Process.Signal(syscall.SIGTERM) // behind the other one, where there was one
	_ = cmd.Wait()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signal() == syscall.SIGKILL
}

func TestGroupsAreKilled(t *testing.T) {
	for name, change := range tables {
		one, other := sleeper(t), sleeper(t)
		g := newTable(os.Getppid(), syscall.Getpgrp())
		g.line(told(1, one.Process.Pid, StartTime(one.Process.Pid)))
		g.line(told(2, other.Process.Pid, 0)) // not known
		change(g)
		g.end()
		if !killed(t, one) || !killed(t, other) {
			t.Errorf("%s: a process runs on", name)
		}
	}
}

// A number that is another's by now is that of nobody who is killed.
func TestReusedNumberIsLeftAlone(t *testing.T) {
	for name, change := range tables {
		other := sleeper(t)
		g := newTable(os.Getppid(), syscall.Getpgrp())
		g.line(told(1, other.Process.Pid, StartTime(other.Process.Pid)-1))
		change(g)
		g.end()
		if killed(t, other) {
			t.Errorf("%s: a process was killed that only has the number", name)
		}
	}
}

// The same with a number that the system has given out again.
func TestNumberThatTheSystemGivesOutAgain(t *testing.T) {
	const last = "/proc/sys/kernel/ns_last_pid"
	if f, err := os.OpenFile(last, os.O_WRONLY, 0); err != nil {
		t.Skip("only who may choose the numbers of processes can test this:", err)
	} else {
		f.Close()
	}
	for name, change := range tables {
		first := sleeper(t)
		number := first.Process.Pid
		g := newTable(os.Getppid(), syscall.Getpgrp())
		g.line(told(1, number, StartTime(number)))
		// Nobody tells that it has ended.
		if err := first.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = first.Wait()
		<-time.After(20 * time.Millisecond) // two ticks, in which start times are told
		second := again(t, last, number)
		change(g)
		g.end()
		if killed(t, second) {
			t.Errorf("%s: another process was killed that has got the number", name)
		}
	}
}

// again starts a process with a number, which leads a group.
func again(t *testing.T, last string, number int) *exec.Cmd {
	t.Helper()
	for range 200 { // others start processes meanwhile
		if err := os.WriteFile(last, []byte(strconv.Itoa(number-1)), 0); err != nil {
			t.Skip("the numbers of processes cannot be chosen:", err)
		}
		cmd := sleeper(t)
		if cmd.Process.Pid == number {
			return cmd
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Skip("the number is taken")
	return nil
}

// Whatever is said, neither everything nor the gateway or the guardian itself is
// killed.
func TestWhoIsNeverKilled(t *testing.T) {
	g := newTable(os.Getppid(), syscall.Getpgrp())
	for i, pid := range []int{0, 1, os.Getppid(), os.Getpid(), syscall.Getpgrp(), maxPID + 1} {
		g.line(told(i, pid, 0))
	}
	for _, line := range []string{
		"", " ", "started", "started 1 2", "started 1 2 3 4", "started 1 -1 0", "started x 2 3", "ended", "ended x",
		"started 1 99999999999999999999 0", "killed 1 2 3", "look 1",
	} {
		g.line([]byte(line))
	}
	if len(g.children) != 0 {
		t.Errorf("%d children", len(g.children))
	}
	g.end() // this test goes on
}

// What the gateway writes may come in any pieces.
func TestPiecesOfLines(t *testing.T) {
	one := sleeper(t)
	line := told(7, one.Process.Pid, StartTime(one.Process.Pid))
	text := fmt.Sprintf("%s\n%s\nended 8\nlook\n", line, told(8, one.Process.Pid, 0))
	for size := 1; size < len(text); size++ {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() { // ends with its text
			defer writer.Close()
			for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
				_, _ = writer.WriteString(rest[:min(size, len(rest))])
			}
		}()
		g := newTable(os.Getppid(), syscall.Getpgrp())
		if !g.follow(int(reader.Fd())) {
			t.Fatal("it did not read to the end")
		}
		reader.Close()
		if c := g.children[7]; len(g.children) != 1 || c == nil || c.pid != one.Process.Pid {
			t.Fatalf("in pieces of %d: %+v", size, g.children)
		}
		g.forget(7)
	}
}

func TestNumberOfChildrenIsBounded(t *testing.T) {
	g := newTable(os.Getppid(), syscall.Getpgrp())
	for i := range maxChildren + 10 {
		g.line(told(i, 1<<23, 0)) // no system gives out such a number
	}
	if len(g.children) != maxChildren {
		t.Errorf("%d children", len(g.children))
	}
}

func TestProcessesAreRead(t *testing.T) {
	self, ok := processOf(os.Getpid())
	session, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
	if !ok || self.parent != os.Getppid() || self.group != syscall.Getpgrp() || self.session != int(session) || self.ended() {
		t.Errorf("%+v, %v", self, ok)
	}
	one := sleeper(t)
	found := newTree(processes()).below(func(p *process) bool { return p.pid == os.Getpid() })
	there := false
	for _, p := range found {
		there = there || p.pid == one.Process.Pid && p.group == p.pid
	}
	if !there {
		t.Error("a child of this process is not below it")
	}
	if StartTime(one.Process.Pid) < self.start || StartTime(1<<22+1) != 0 {
		t.Error("start times")
	}
}

// A guardian that was started by hand, or by another version, does nothing.
func TestStartedByHand(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"0", "1", "1"}, {Version, "x", "1"}, {Version, "1", ""}} {
		cmd := &exec.Cmd{Path: self, Args: append([]string{Name}, args...)}
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != exitStarted {
			t.Errorf("%v: %v", args, err)
		}
	}
	for _, args := range [][]string{{"0", "3"}, {Version, "x"}, {Version, "3"}} { // the last has no plan
		cmd := &exec.Cmd{Path: self, Args: append([]string{GateName}, args...)}
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() > exitRead {
			t.Errorf("gate %v: %v", args, err)
		}
	}
	cmd := &exec.Cmd{Path: self, Args: []string{Name, Version, "1", "1"}} // its input is at its end
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}

func TestPlanIsReadAsItWasWritten(t *testing.T) {
	for _, p := range []Plan{
		{Path: "/bin/sh"}, {Path: "/bin/sh", Argv: []string{"sh", "", ""}, Env: []string{"A=\n", "", "B"}}, {Argv: []string{""}},
	} {
		data, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var got Plan
		if err := got.decode(data); err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", p) {
			t.Errorf("%q: %q, %v", p, got, err)
		}
		for n := range data {
			if err := got.decode(data[:n]); err == nil {
				t.Errorf("%q is taken", data[:n])
			}
		}
	}
}

func FuzzPlan(f *testing.F) {
	data, err := (&Plan{Path: "/bin/sh", Argv: []string{"sh"}, Env: []string{"A=b"}}).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("2 \x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p, again Plan
		if p.decode(data) != nil {
			return
		}
		out, err := p.Encode()
		if err != nil || again.decode(out) != nil || fmt.Sprintf("%q", again) != fmt.Sprintf("%q", p) {
			t.Errorf("%q: %q", p, again)
		}
	})
}

func FuzzLine(f *testing.F) {
	f.Add([]byte("started 1 2 3"))
	f.Add([]byte("look"))
	f.Add([]byte("ended 1"))
	f.Fuzz(func(t *testing.T, line []byte) {
		g := newTable(os.Getppid(), syscall.Getpgrp())
		g.line(line)
		for id, c := range g.children {
			if !g.mayEnd(c.pid) {
				t.Errorf("%d would be killed", c.pid)
			}
			g.forget(id)
		}
	})
}

func FuzzStat(f *testing.F) {
	f.Add([]byte("1 (a b) c) S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1 2"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, ok := parseStat(text); ok && (p.parent < 0 || p.group < 0 || p.session < 0) {
			t.Errorf("%+v", p)
		}
	})
}

package orphan

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/testwait"
)

// What a gateway has started ends when the gateway is killed: what is in the groups of
// its children, what has left them, what was just being started, and what has lost
// its parent before. Nothing but the guardian does it here.
func TestNothingOutlivesAKilledGateway(t *testing.T) {
	t.Parallel()
	for deed, want := range map[string]int{"family": 6, "gate": 1, "stray": 3} {
		t.Run(deed, func(t *testing.T) {
			t.Parallel()
			g := run(t, deed)
			testwait.Until(t, patience, "the processes run", func() bool { return len(g.left(t)) == want })
			g.kill(t)
			testwait.Until(t, soon, "everything ends", func() bool { return len(g.left(t)) == 0 })
			testwait.Until(t, soon, "the guardian ends", func() bool { return !runs(g.guardian) })
		})
	}
}

// What is said to have ended is left alone.
func TestWhatHasEndedIsLeftAlone(t *testing.T) {
	t.Parallel()
	g := run(t, "ended")
	const all = 6
	testwait.Until(t, patience, "the processes run", func() bool { return len(g.left(t)) == all })
	g.kill(t)
	testwait.Until(t, patience, "the guardian ends", func() bool { return !runs(g.guardian) })
	if n := len(g.left(t)); n != all {
		t.Errorf("%d processes of %d run", n, all)
	}
}

// Another guardian takes the place of one that was killed, and knows what it knew.
func TestGuardianIsReplaced(t *testing.T) {
	t.Parallel()
	g := run(t, "family")
	first := g.guardian
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "there is another guardian", func() bool {
		g.guardian = guardianOf(t, g.cmd.Process.Pid)
		return g.guardian != 0 && g.guardian != first
	})
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", first)); err == nil {
		t.Error("the first guardian is a zombie")
	}
	g.kill(t)
	testwait.Until(t, soon, "everything ends", func() bool { return len(g.left(t)) == 0 })
	testwait.Until(t, soon, "the guardian ends", func() bool { return !runs(g.guardian) })
}

// guardianOf finds the guardian of a process; 0 is none.
func guardianOf(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil || !strings.HasPrefix(string(line), fmt.Sprintf("toolgate-guardian\x001\x00%d\x00", pid)) {
			continue
		}
		var found int
		if _, err := fmt.Sscan(e.Name(), &found); err == nil && runs(found) {
			return found
		}
	}
	return 0
}

// A guardian keeps nothing open that the gateway was given, is in a session of its
// own, and is not ended by what a terminal or a service manager sends to everybody.
func TestGuardianStandsApart(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	g := run(t, "family", writer)
	// The gateway has it as descriptor 3, and gives it on to whatever it starts.
	writer.Close()
	folder := fmt.Sprintf("/proc/%d/fd/", g.guardian)
	testwait.Until(t, patience, "the guardian has nothing but its own", func() bool {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			to, err := os.Readlink(folder + e.Name())
			own := to == "/dev/null" || strings.HasPrefix(to, "pipe:") && e.Name() == "0" || strings.HasPrefix(to, "anon_inode:[pidfd]")
			if err == nil && !own {
				return false
			}
		}
		return true
	})
	if session, err := unix.Getsid(g.guardian); err != nil || session != g.guardian {
		t.Errorf("its session is %d, %v", session, err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if err := syscall.Kill(g.guardian, sig); err != nil {
			t.Fatal(err)
		}
	}
	g.kill(t)
	testwait.Until(t, soon, "everything ends", func() bool { return len(g.left(t)) == 0 })
}

// A guardian that cannot be started keeps nobody from starting anything, and is told
// about once.
func TestWithoutAGuardian(t *testing.T) {
	t.Parallel()
	var told []error
	k := &keeper{path: "/nonexistent"}
	defer k.guard(func(err error) { told = append(told, err) })()
	for range 3 {
		process, c, err := start(k, "echo up; exec sleep 600")
		if err != nil {
			t.Fatal(err)
		}
		ended(t, process)
		c.Ended()
		k.retry = time.Time{}
	}
	if len(told) != 1 || k.pid() != 0 {
		t.Errorf("told %v, guardian %d", told, k.pid())
	}
}

// One that runs and fails at once is started again later, and told about once.
func TestGuardianThatFails(t *testing.T) {
	t.Parallel()
	told := make(chan error, 10)
	k := &keeper{path: "/bin/false"}
	end := k.guard(func(err error) { told <- err })
	k.expect()
	select {
	case err := <-told:
		if !strings.Contains(err.Error(), "exit status 1") {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("nobody was told")
	}
	process, c, err := start(k, "echo up; exec sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	ended(t, process)
	c.Ended()
	end()
	if len(told) > 0 {
		t.Error("told again:", <-told)
	}
}

// Nothing is guarded before that is asked for, nor after the end.
func TestNothingIsGuardedUnasked(t *testing.T) {
	t.Parallel()
	k := &keeper{}
	process, c, err := start(k, "echo up; exec sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	c.Started(process.Pid)
	ended(t, process)
	c.Ended()
	if c != nil || k.pid() != 0 {
		t.Errorf("%v, guardian %d", c, k.pid())
	}
	k.look()
}

// The end of a gateway that ends by itself is that of its guardian, which is no zombie
// then, and of what it has left running.
func TestEndOfTheGateway(t *testing.T) {
	t.Parallel()
	k := &keeper{}
	end, other := k.guard(func(err error) { t.Error(err) }), k.guard(func(err error) { t.Error(err) })
	process, c, err := start(k, "echo up; exec sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	guardian := k.pid()
	if !runs(guardian) {
		t.Fatal("there is no guardian")
	}
	end()
	end()
	if k.pid() != guardian || !runs(guardian) {
		t.Error("the guardian has ended while somebody wants it")
	}
	other()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", guardian)); err == nil {
		t.Error("the guardian is there still")
	}
	wasKilled(t, process)
	c.Ended()
	// It may be guarded again.
	defer k.guard(func(err error) { t.Error(err) })()
	if k.expect(); k.pid() == 0 {
		t.Error("there is no guardian the second time")
	}
}

// A guardian that takes nothing is replaced before it holds up anybody for long, and
// the next one knows everything.
func TestGuardianThatIsStopped(t *testing.T) {
	t.Parallel()
	k := &keeper{}
	end := k.guard(func(error) {})
	defer end()
	process, _, err := start(k, "echo up; exec sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	first := k.pid()
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 10000 { // more than a pipe holds
		k.look()
		k.look()
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %v", took)
	}
	testwait.Until(t, patience, "there is another guardian", func() bool { return k.pid() != first && k.pid() != 0 })
	end()
	wasKilled(t, process)
}

// ended ends a process that nobody guards.
func ended(t *testing.T, process *os.Process) {
	t.Helper()
	if err := process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Wait(); err != nil {
		t.Error(err)
	}
}

// wasKilled waits for a process that a guardian kills.
func wasKilled(t *testing.T, process *os.Process) {
	t.Helper()
	state, err := process.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Error(state)
	}
}

package descent

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/orphan"
)

// Adopt makes this process the parent of its descendants whose own parents end, in place
// of the first process of the system (prctl(2), PR_SET_CHILD_SUBREAPER). Call it before
// anything is started.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// sweepEvery is how often the gateway looks for orphans that have ended. An ended process
// that is still there at the second look is an orphan: processes that this one has
// started itself are waited for by whoever started them.
const sweepEvery = 30 * time.Second

// SweepAdopted reaps the orphans that were handed to this process, until the context
// ends. It asks the guardian to look for living ones: only their parent shows where they
// belong, and that is lost with this process.
func SweepAdopted(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	seen := map[int]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			seen = sweep(seen)
			orphan.Look()
		}
	}
}

// sweep reaps the ended children that had ended before, and returns those that have ended
// now.
func sweep(before map[int]bool) map[int]bool {
	now := map[int]bool{}
	parents, states, err := processes()
	if err != nil {
		return now
	}
	for pid, state := range states {
		if state != 'Z' || parents[pid] != os.Getpid() {
			continue
		}
		if !before[pid] {
			now[pid] = true
			continue
		}
		var status unix.WaitStatus
		_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil) // another goroutine may have reaped it
	}
	return now
}

// maxRounds bounds how often EndAdopted looks for what is left.
const maxRounds = 64

// EndAdopted kills the remaining descendants of a process that is about to end and has
// waited for all that it started itself. Otherwise they would be handed to the first
// process of the system, and the next gateway would not know them as descendants.
func EndAdopted() {
	// Reading all processes takes longer than most commands, and most have started
	// nothing. A process without children has no descendants.
	if unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WALL|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD {
		return
	}
	for range maxRounds {
		parents, states, err := processes()
		if err != nil {
			return
		}
		self, left := os.Getpid(), false
		for pid := range parents {
			if pid == self || !below(pid, self, parents) {
				continue
			}
			if states[pid] != 'Z' {
				left = true
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
			}
			if parents[pid] == self {
				var status unix.WaitStatus
				_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil)
			}
		}
		if !left {
			return
		}
	}
}

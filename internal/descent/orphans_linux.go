package descent

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/orphan"
)

// Adopt makes this process the parent of its descendants whose own parents end,
// in the place of the first process of the system (prctl(2),
// PR_SET_CHILD_SUBREAPER). It is called before anything is started.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// sweepEvery is how often orphans that have ended are looked for. One that has
// ended and is still there at the second look is nobody's: those that this process
// has started itself are waited for by whoever started them.
const sweepEvery = 30 * time.Second

// SweepAdopted reaps the orphans that were handed to this process, until the
// context ends. The guardian is asked to look for those that live: nothing but their
// parent shows whose they are, and that is lost with this process.
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

// sweep reaps the dead children that were dead before, and returns those that are
// dead now.
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
		_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil) // somebody else may have
	}
	return now
}

// maxRounds bounds how often EndAdopted looks for what is left.
const maxRounds = 64

// EndAdopted kills what is left of the descendants of a process that ends and has
// waited for all that it started itself: handed on to the first process of the
// system, they would not be known as descendants by the next gateway.
func EndAdopted() {
	// To read all processes takes longer than most commands, and most have started
	// nothing. What has no children has no descendants.
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

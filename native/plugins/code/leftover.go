package code

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// removeWait bounds one try to remove a container.
	removeWait = 20 * time.Second
	// removeTries is how often one that stays is tried again, and maxLeftover how many are
	// tried again at once.
	removeTries, maxLeftover = 6, 16
)

var (
	// removePause is the pause before the first further try; it doubles each time.
	removePause = 10 * time.Second
	// tell tells the operator a line: it becomes one of the log.
	tell = func(line string) { fmt.Fprintln(os.Stderr, line) }
)

// leftovers removes containers whose runs have ended, and tries again those that stay. The
// zero value is ready for use, until it is closed.
type leftovers struct {
	mu      sync.Mutex
	stop    context.CancelFunc // ends the tries; nil before the first
	ctx     context.Context
	closed  bool
	pending int
	trying  sync.WaitGroup
}

// remove removes a container with a job that does so. If it stays, the operator is told,
// and it is tried again in the background.
func (l *leftovers) remove(ctx context.Context, name string, j *job) {
	err := removed(ctx, j)
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.pending >= maxLeftover {
		stays(name, j, err)
		return
	}
	if l.stop == nil {
		l.ctx, l.stop = context.WithCancel(context.Background())
	}
	tell(fmt.Sprintf("the container %s cannot be removed: %v; it is tried again", name, err))
	l.pending++
	l.trying.Go(func() {
		l.again(l.ctx, name, j, err)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.pending--
	})
}

// again tries until the container is gone, the tries are used up, or ctx ends.
func (l *leftovers) again(ctx context.Context, name string, j *job, err error) {
	pause := removePause
	for range removeTries {
		select {
		case <-ctx.Done():
			stays(name, j, err)
			return
		case <-time.After(pause):
		}
		if err = removed(ctx, j); err == nil {
			tell(fmt.Sprintf("the container %s is removed", name))
			return
		}
		pause *= 2
	}
	stays(name, j, err)
}

// stays tells that nobody tries any more to remove a container.
func stays(name string, j *job, err error) {
	tell(fmt.Sprintf("the container %s stays: %v; remove it with `%s rm --force %s`", name, err, j.program.Path, name))
}

// removed runs a removal and tells what is wrong with it. A container that is not there is
// removed.
func removed(ctx context.Context, j *job) error {
	out, err := j.run(ctx)
	said := strings.TrimSpace(out.Stderr)
	switch {
	case err != nil:
		return err
	case out.TimedOut:
		return fmt.Errorf("the runtime did not do it within %s", removeWait)
	case out.ExitCode == 0 || strings.Contains(strings.ToLower(said), "no such container"):
		return nil
	case said == "":
		return fmt.Errorf("the runtime exited with %d", out.ExitCode)
	}
	if len(said) > 300 {
		said = strings.ToValidUTF8(said[:300], "")
	}
	return errors.New(strings.Join(strings.Fields(said), " "))
}

// close ends the tries.
func (l *leftovers) close() {
	l.mu.Lock()
	l.closed = true
	if l.stop != nil {
		l.stop()
	}
	l.mu.Unlock()
	l.trying.Wait()
}

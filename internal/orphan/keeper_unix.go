//go:build unix

package orphan

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/orphan/guardian"
)

const (
	// tellTime is how long the guardian may take to make room in its pipe, which holds
	// more than a thousand lines. Then it is replaced.
	tellTime = time.Second
	// endTime is how long a guardian may take to end on request.
	endTime = 2 * time.Second
	// roomOfPipe is what every pipe holds, in bytes.
	roomOfPipe = 4 << 10
	// steady is how long a guardian must live not to count as failed.
	steady = 10 * time.Second
	// firstPause and longestPause bound the pause between the failure of a guardian and
	// the start of the next.
	firstPause, longestPause = 100 * time.Millisecond, time.Minute
)

// keeper runs the guardian. The zero value guards nothing until guard is called.
type keeper struct {
	mu       sync.Mutex
	asked    int         // number of calls of guard that have not ended
	warning  func(error) // nil when nothing is guarded
	warned   bool
	children map[*Child]struct{}
	ids      uint64

	pipe    *os.File    // to the guardian; nil without one
	process *os.Process // the guardian; nil without one
	stop    chan struct{}
	stopped chan struct{} // closed when no goroutine watches a guardian; nil before the first
	retry   time.Time     // earliest start of the next guardian
	path    string        // the guardian's program; empty for this one
}

// Child is a guarded process with its group, from Started to Ended. A nil Child is not
// guarded. All methods may be called concurrently.
type Child struct {
	of    *keeper
	id    uint64
	pid   int // 0 before the start
	start uint64
}

func (k *keeper) guard(warning func(error)) (end func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.warning = warning
	k.asked++
	var once sync.Once
	return func() { once.Do(k.release) }
}

// release reverts one call of guard.
func (k *keeper) release() {
	k.mu.Lock()
	k.asked--
	left := k.asked
	k.mu.Unlock()
	if left == 0 {
		k.close()
	}
}

func (k *keeper) expect() *Child {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.warning == nil {
		return nil
	}
	k.ensure()
	k.ids++
	return &Child{of: k, id: k.ids}
}

// Started sets the process of the child. It must lead a process group or a session, be
// a child of this process, and not be waited for yet. The guardian learns of it even if
// this process ends right after Started has returned.
func (c *Child) Started(pid int) {
	if c == nil {
		return
	}
	start := guardian.StartTime(pid)
	k := c.of
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.warning == nil {
		return
	}
	c.pid, c.start = pid, start
	if k.children == nil {
		k.children = make(map[*Child]struct{})
	}
	k.children[c] = struct{}{}
	k.tell(c.line())
}

// Ended reports that nothing of the child is left. If possible, call it before the
// process is waited for: afterwards its number may be reused. It does nothing for a
// child that was not started.
func (c *Child) Ended() {
	if c == nil {
		return
	}
	k := c.of
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.children[c]; known {
		delete(k.children, c)
		k.tell(line(guardian.Ended, c.id))
	}
}

// line is the guardian's line about a child.
func (c *Child) line() []byte {
	return line(guardian.Started, c.id, uint64(c.pid), c.start) // positive
}

func line(word string, numbers ...uint64) []byte {
	out := append(make([]byte, 0, 96), word...)
	for _, n := range numbers {
		out = strconv.AppendUint(append(out, ' '), n, 10)
	}
	return append(out, '\n')
}

func (k *keeper) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tell(line(guardian.Look))
}

func (k *keeper) pid() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process == nil {
		return 0
	}
	return k.process.Pid
}

// tell writes lines to the guardian; mu is held. A guardian that does not read is
// killed; the next one is told everything.
func (k *keeper) tell(lines []byte) {
	if k.pipe == nil || len(lines) == 0 {
		return
	}
	_ = k.pipe.SetWriteDeadline(time.Now().Add(tellTime)) // the write fails if this does
	if _, err := k.pipe.Write(lines); err != nil {
		k.pipe.Close()
		k.pipe = nil
		_ = k.process.Kill() // it may have ended
	}
}

// ensure starts a guardian, if none is watched and the pause is over; mu is held.
func (k *keeper) ensure() {
	if k.stopped != nil {
		select {
		case <-k.stopped:
		default:
			return
		}
	}
	if time.Now().Before(k.retry) {
		return
	}
	if err := k.launch(); err != nil {
		k.retry = time.Now().Add(longestPause)
		k.warn(err)
		return
	}
	k.stop, k.stopped = make(chan struct{}), make(chan struct{})
	go k.watch(k.process, k.stop, k.stopped) // ends with close, or when no guardian can be started
}

// launch starts a guardian and tells it all children; mu is held.
func (k *keeper) launch() error {
	path, err := k.program()
	if err != nil {
		return fmt.Errorf("find the program of the gateway: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("open a pipe: %w", err)
	}
	defer reader.Close()
	// Fill the pipe, as far as every pipe holds, before the guardian starts, so that it
	// knows these children from its beginning.
	var known []byte
	for c := range k.children {
		known = append(known, c.line()...)
	}
	first := min(len(known), roomOfPipe)
	_ = writer.SetWriteDeadline(time.Now().Add(tellTime)) // the write fails if this does
	if _, err := writer.Write(known[:first]); err != nil {
		writer.Close()
		return fmt.Errorf("tell a guardian: %w", err)
	}
	process, err := os.StartProcess(path, []string{
		guardian.Name, guardian.Version, strconv.Itoa(os.Getpid()), strconv.Itoa(syscall.Getpgrp()),
	}, &os.ProcAttr{
		Dir: "/",
		// The guardian gets nothing of the gateway's environment, and needs only one
		// core.
		Env:   []string{"GOMAXPROCS=1"},
		Files: []*os.File{reader, null, null},
		// Signals of a terminal or a shell to the gateway's group do not reach it.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		writer.Close()
		return fmt.Errorf("start a guardian: %w", err)
	}
	k.pipe, k.process = writer, process
	k.tell(known[first:])
	return nil
}

// program returns the path of the guardian's program.
func (k *keeper) program() (string, error) {
	switch {
	case k.path != "":
		return k.path, nil
	case runtime.GOOS == "linux":
		return "/proc/self/exe", nil // even if the file was replaced meanwhile
	}
	return os.Executable()
}

// watch waits for the end of the guardian and starts another one.
func (k *keeper) watch(process *os.Process, stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	for wait := (backoff.Backoff{Base: firstPause, Max: longestPause, Jitter: -1}); ; {
		began := time.Now()
		state, err := process.Wait()
		if err == nil {
			err = fmt.Errorf("guardian %d ended: %s", process.Pid, state)
		}
		k.lost(process)
		if time.Since(began) >= steady {
			wait.Reset()
		}
		select {
		case <-stop:
			return
		case <-time.After(wait.Next()):
		}
		if process = k.again(stop, err); process == nil {
			return
		}
	}
}

// lost records the end of a guardian, unless there is a new one.
func (k *keeper) lost(process *os.Process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process != process {
		return
	}
	k.process = nil
	if k.pipe != nil {
		k.pipe.Close()
		k.pipe = nil
	}
}

// again starts the next guardian; nil for none.
func (k *keeper) again(stop <-chan struct{}, ended error) *os.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-stop:
		return nil
	default:
	}
	k.warn(ended)
	if err := k.launch(); err != nil {
		k.retry = time.Now().Add(longestPause)
		return nil
	}
	return k.process
}

// warn reports once that children are not guarded; mu is held.
func (k *keeper) warn(err error) {
	if k.warned || k.warning == nil {
		return
	}
	k.warned = true
	k.warning(err)
}

// close ends the guardian, unless guard was called again meanwhile.
func (k *keeper) close() {
	k.mu.Lock()
	if k.asked > 0 {
		k.mu.Unlock()
		return
	}
	k.warning, k.warned = nil, false
	clear(k.children)
	if k.pipe != nil {
		k.pipe.Close()
		k.pipe = nil
	}
	process, stop, stopped := k.process, k.stop, k.stopped
	k.process, k.stop, k.stopped = nil, nil, nil
	if stop != nil {
		close(stop)
	}
	k.mu.Unlock()
	if stop == nil {
		return
	}
	late := time.NewTimer(endTime)
	defer late.Stop()
	select {
	case <-stopped:
	case <-late.C:
		if process != nil {
			_ = process.Kill() // it may have ended
		}
		<-stopped
	}
}

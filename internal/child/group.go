package child

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"

	"github.com/toolgate/toolgate/internal/orphan"
)

// Guard is how a process's descendants are ended when the gateway is killed.
type Guard int

const (
	// GuardedFirst runs the program only once the guardian knows it. The standard files
	// of the command must be files, or nil for none, and its Env must not be nil.
	GuardedFirst Guard = iota
	// GuardedAfter tells the guardian right after the start. It is for a program that
	// waits for a message from the gateway, or a command whose standard files are not
	// files.
	GuardedAfter
	// Alone is for a process that starts no others, or ends them itself. The guardian
	// is told only where the system does not end the process with the gateway.
	Alone
)

// Group is a process with everything that it starts and that stays in its process group
// or session (Unix) or job (Windows, where nothing can leave).
//
// The zero value has not been started. All methods may be called concurrently.
type Group struct {
	mu      sync.Mutex // no signal is sent during or after the reaping
	leader  *os.Process
	guarded *orphan.Child
	ended   bool
	system  //nolint:unused // it holds the job on Windows

	exited chan struct{} // created by Start
	err    error         // set before exited is closed
}

// Start starts a command, once, as the leader of a new group, or of a session if the
// command's SysProcAttr asks for one. Other fields of SysProcAttr are set unless given.
// After Start has succeeded, call AwaitExit, then End, and then wait for the command.
// The error is that of the start.
func (g *Group) Start(cmd *exec.Cmd, guard Guard) error {
	g.mu.Lock()
	if g.exited != nil {
		g.mu.Unlock()
		return errors.New("a process is started once")
	}
	g.exited = make(chan struct{})
	started := make(chan error, 1)
	go g.hold(cmd, guard, started) // ends with the process, and unlocks
	return <-started
}

// hold starts the command and waits until it has exited; mu is held and released after
// the start, so that a concurrent Kill waits for it. hold keeps its thread: on Linux a
// child gets its death signal when the thread that started it ends, even if the gateway
// lives on.
func (g *Group) hold(cmd *exec.Cmd, guard Guard, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := g.begin(cmd, guard)
	if err == nil {
		g.leader = cmd.Process
	}
	g.mu.Unlock()
	started <- err
	if err == nil {
		g.err = g.awaitExit()
	}
	close(g.exited)
}

// AwaitExit waits until the leader has exited, without reaping it. The error says why
// that is unknown.
func (g *Group) AwaitExit() error {
	<-g.exited
	return g.err
}

// PID returns the process id of the leader, 0 before the start.
func (g *Group) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leader == nil {
		return 0
	}
	return g.leader.Pid
}

// Terminate asks the group to end, as far as the system can. It does nothing before the
// start and after End.
func (g *Group) Terminate() { g.live((*Group).terminate) }

// Kill kills the group at once. It does nothing before the start and after End. It
// waits for a start that is under way.
func (g *Group) Kill() { g.live((*Group).kill) }

// End kills the rest of the group, which is never signalled again. Call it before the
// leader is waited for: until then the leader keeps the group's number from being
// reused.
func (g *Group) End() {
	g.live(func(g *Group) {
		g.kill()
		g.close()
		g.ended = true
	})
}

// live calls do if the group exists.
func (g *Group) live(do func(*Group)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leader != nil && !g.ended {
		do(g)
	}
}

// standardFiles returns the standard files of a command, in the order of their
// descriptors.
func standardFiles(cmd *exec.Cmd) ([]*os.File, error) {
	files := make([]*os.File, 0, 3+len(cmd.ExtraFiles))
	for _, of := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		file, ok := of.(*os.File)
		if !ok && of != nil {
			return nil, errors.New("its standard files must be files")
		}
		files = append(files, file)
	}
	return append(files, cmd.ExtraFiles...), nil
}

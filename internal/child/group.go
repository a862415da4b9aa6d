package child

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"

	"github.com/toolgate/toolgate/internal/orphan"
)

// Guard says how what a process starts is ended when the gateway is killed.
type Guard int

const (
	// GuardedFirst has the program run only once the guardian knows it. The standard
	// files of the command are files, or nil for none, and its Env is not nil.
	GuardedFirst Guard = iota
	// GuardedAfter tells the guardian right after the start. It is for a program that
	// waits for a word of the gateway, or a command whose files are not files.
	GuardedAfter
	// Alone is for a process that starts no others, or sees to their end itself. The
	// guardian is told where the system would not end the process itself.
	Alone
)

// Group is a process with all that it starts, for as long as that stays in its
// process group or session (Unix) or job (Windows, where nothing can leave).
//
// The zero value has not been started. All methods may be called concurrently.
type Group struct {
	mu      sync.Mutex // no signal is sent during or after the reaping
	leader  *os.Process
	guarded *orphan.Child
	ended   bool
	system  //nolint:unused // it holds the job on Windows

	exited chan struct{} // made by Start
	err    error         // set before exited is closed
}

// Start starts a command, once, as the leader of a new group; a session, if the
// command's SysProcAttr asks for one. The rest of SysProcAttr is set here unless it is
// given. Once Start has succeeded, somebody calls AwaitExit, then End, and then waits
// for the command. The error is that of the start.
func (g *Group) Start(cmd *exec.Cmd, guard Guard) error {
	g.mu.Lock()
	if g.exited != nil {
		g.mu.Unlock()
		return errors.New("a process is started once")
	}
	g.exited = make(chan struct{})
	started := make(chan error, 1)
	go g.hold(cmd, guard, started) // ends with the process; it unlocks
	return <-started
}

// hold starts the command and waits until it has exited; mu is held, and released once
// it was started: who kills the group meanwhile, waits for that. It keeps to one
// thread because on Linux a child gets its death signal when the thread that started
// it ends, even if the gateway lives on.
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

// AwaitExit waits until the leader of a group that was started has exited, and leaves
// it to be waited for. The error says why that is not known.
func (g *Group) AwaitExit() error {
	<-g.exited
	return g.err
}

// PID returns the number of the leader, 0 before it has started.
func (g *Group) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leader == nil {
		return 0
	}
	return g.leader.Pid
}

// Terminate asks all of the group to end, as far as the system can. It does nothing
// before the start and after End.
func (g *Group) Terminate() { g.live((*Group).terminate) }

// Kill ends all of the group at once. It does nothing before the start and after End;
// a start that is under way is waited for.
func (g *Group) Kill() { g.live((*Group).kill) }

// End kills what is left of the group, after which nobody signals it any more. It is
// called before the leader is waited for: until then the leader keeps the number of
// its group from being given to others.
func (g *Group) End() {
	g.live(func(g *Group) {
		g.kill()
		g.close()
		g.ended = true
	})
}

// live does what do does, unless the group is not there.
func (g *Group) live(do func(*Group)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leader != nil && !g.ended {
		do(g)
	}
}

// standardFiles returns the files of a command, in the order of their descriptors.
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

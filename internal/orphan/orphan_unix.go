//go:build unix

package orphan

import "os"

// own keeps the guardian of this process.
var own keeper

// Guard has the children of this process guarded until end is called, as often as Guard
// was. The last end waits for the end of the guardian, which kills what it knows and
// was not told to have ended. Of several functions the latest is told, once, why a
// guardian does not run; it must not call this package, nor be nil. Everything may be
// called concurrently, and end more than once.
func Guard(warn func(error)) (end func()) { return own.guard(warn) }

// StartProcess is [os.StartProcess] for a child that leads a process group or a
// session, which attr says. The program does not run before the guardian knows it.
// The Child, which may be nil, is told when it has ended, and that it has started
// already.
func StartProcess(path string, argv []string, attr *os.ProcAttr) (*os.Process, *Child, error) {
	return own.start(path, argv, attr)
}

// Expect sees that there is a guardian for a child that is about to be started in
// another way, and does nothing before [Child.Started] was called. The result may be
// nil, and its methods may be called all the same.
func Expect() *Child { return own.expect() }

// Look asks the guardian, if there is one, to look for descendants of this process
// that have left the groups of the children. It costs the guardian as much time as
// to read the list of all processes.
func Look() { own.look() }

// Guardian returns the number of the guardian's process, 0 where there is none.
func Guardian() int { return own.pid() }

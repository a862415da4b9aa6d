//go:build unix

package orphan

import "os"

// own is the keeper of this process.
var own keeper

// Guard guards the children of this process until end was called as often as Guard. The
// last end waits for the guardian, which kills the children that have not ended. warn
// is called once when a guardian cannot run; the latest function counts. It must not
// call this package, nor be nil. All may be called concurrently, and end more than
// once.
func Guard(warn func(error)) (end func()) { return own.guard(warn) }

// StartProcess is [os.StartProcess] for a child that leads a process group or a
// session, as attr says. The program does not run before the guardian knows it. Call
// Ended of the returned Child, which may be nil; Started was called.
func StartProcess(path string, argv []string, attr *os.ProcAttr) (*os.Process, *Child, error) {
	return own.start(path, argv, attr)
}

// Expect makes sure that there is a guardian for a child that is about to be started in
// another way. Call [Child.Started] after the start. The result may be nil; its methods
// may be called anyway.
func Expect() *Child { return own.expect() }

// Look asks the guardian, if there is one, to find descendants of this process that
// have left the groups of the children. The guardian reads the list of all processes
// for it.
func Look() { own.look() }

// Guardian returns the process id of the guardian, 0 without one.
func Guardian() int { return own.pid() }

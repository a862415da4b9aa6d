// Package guardian is the process that kills a gateway's children when the gateway ends
// without doing so itself, by a crash, kill -9 or a shortage of memory.
//
// A gateway starts its own program again under the name [Name], with the reading end of
// a pipe as standard input. It writes into the pipe which children it starts and which
// have ended. Nobody else has the writing end, so the pipe ends with the gateway. The
// guardian then kills all children that have not ended, and ends too.
//
// Any program that imports this package can be started as a guardian, and as a gate
// (see [GateName]). Starting one by hand gives nobody new rights.
//
// Both take over in package initialisation and never leave it. Among the packages whose
// imports are initialised, Go initialises the one with the smallest path first. This
// package imports little, so most of a large program is never initialised in a
// guardian, which saves time and memory.
package guardian

const (
	// Name is the guardian's name, in place of its program's.
	Name = "toolgate-guardian"
	// Version is the guardian's first argument, because the lines in the pipe may
	// differ in another version of the program. The second and third argument are the
	// process ids of the gateway and of its process group.
	Version = "1"
)

// Lines in the pipe: one of these words, followed by numbers, separated by spaces.
const (
	// Started reports a running child: a number that identifies it from then on, the
	// process id, which leads a group or a session, and its [StartTime].
	Started = "started"
	// Ended says that nothing of a child is left.
	Ended = "ended"
	// Look asks the guardian to find descendants of the gateway that have left the
	// groups of the children.
	Look = "look"
)

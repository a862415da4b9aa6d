// Package guardian is the process that ends what a gateway has started when the
// gateway ends without doing so itself: because of a crash, kill -9 or a shortage
// of memory.
//
// A gateway starts its own program again under the name [Name], with the reading end
// of a pipe as its standard input, and writes into the pipe which children it starts
// and which have ended. Nobody else has the writing end, so the pipe ends with the
// gateway, however that ends. The guardian then kills all that it was told about and
// has not ended, and ends too.
//
// A program that imports this package can be started as a guardian, and as a gate (see
// [GateName]). Whoever does so by hand can kill and run what they could anyway.
//
// Both are entered in package initialisation and never leave it. Go
// initialises, among the packages whose imports are initialised, the one with the
// smallest path first. This one imports little, so that most of a large program is
// never set up in them, which costs neither its time nor its memory.
package guardian

const (
	// Name is what a guardian is called, in the place of the name of its program.
	Name = "toolgate-guardian"
	// Version is its first argument: what is written into the pipe may differ in
	// another version of the program. The second and the third argument are the
	// numbers of the gateway and of the gateway's process group.
	Version = "1"
)

// What is written into the pipe are lines: one of these words, and numbers behind
// it, with a space before each.
const (
	// Started says that a child runs: a number that stands for it from here on, the
	// process, which leads a group or a session, and what [StartTime] says of it.
	Started = "started"
	// Ended says that nothing of a child is left.
	Ended = "ended"
	// Look asks the guardian to look for descendants of the gateway that have left
	// the groups of the children.
	Look = "look"
)

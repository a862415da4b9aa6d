// Package audit writes one JSON line per call, including refused ones, to an
// append-only file: who called what, what was decided, how it ended and how long it
// took. A [Log] signs the lines as a chain, which [Verify] checks; [Read] and [Query]
// find entries again.
//
//	Begin, Append: encode -> buffer -> (one of the waiting callers, for all of them) -> file
//	End:           encode -> buffer -> (Run, every 100 ms, or the next writer) -> file
//
// Begin and Append return when the operating system has the line: nothing else records
// that a call begins, that it was refused, or that somebody changed something. End does
// not wait for the write: a call without an end is closed as unknown at the next start.
// All three are on the path of a call, so they encode by hand into a pooled buffer.
// Arguments and results are never written, only a hash of the arguments, which the
// caller computes.
//
// A log in mode [Required], the zero [Mode], refuses after a failed write: all entries
// and [Log.Healthy] return the error, and the gateway refuses new calls, until
// [Log.Reopen] has written everything that was kept in memory. With [BestEffort]
// callers never wait for a write, and lost entries are counted.
package audit

// Package audit writes one JSON line per call, refusals included, to an
// append-only file: who called what, what was decided, how it ended and what
// it took.
//
//	Begin, Append: encode -> buffer -> (one of those that wait, for all of them) -> file
//	End:           encode -> buffer -> (Run, every 100 ms, or whoever writes next) -> file
//
// All are on the path of a call, so they encode by hand into a pooled buffer. What
// nothing else tells of is with the operating system when it was added: that a call
// begins, that it was refused, that somebody changed something. How a call ended is
// left to [Log.Run]: a call without an end is closed at the next start. Arguments and
// results are never written, only a hash of the arguments: the caller computes it.
//
// A log opened with [Required], which the zero value of [Mode] is, refuses:
// after the first write that fails, every entry and [Log.Healthy] return that
// error, and whoever guards calls is expected to refuse new ones until
// [Log.Reopen] has put everything that was kept on disk. With [BestEffort] nobody
// waits for a write, lost entries are counted and calls go on.
package audit

// Package audit writes one JSON line per call, refusals included, to an
// append-only file: who called what, what was decided, how it ended and what
// it took.
//
//	Append: encode -> buffer -> (Run, every 100 ms, or when it is full) -> file
//
// [Log.Append] is on the path of every call, so it encodes by hand into a
// pooled buffer and leaves the file to [Log.Run]. Arguments and results are
// never written, only a hash of the arguments: the caller computes it.
//
// A log opened with [Required], which the zero value of [Mode] is, refuses:
// after the first write that fails, Append and [Log.Healthy] return that
// error, and whoever guards calls is expected to refuse new ones until
// [Log.Reopen] has put everything that was kept on disk. With [BestEffort] lost
// entries are counted and calls go on.
package audit

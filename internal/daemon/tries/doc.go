// Package tries makes calls of tools by hand, for people in the console and programs of the
// control API. A call is a client of the gateway on a stream in memory, so that it passes
// all that a client's call passes, as the caller who makes it. What was sent is kept for a
// while, in memory, for that caller's session alone.
package tries

// Package tries makes calls of tools by hand, for people in the console and programs of the
// control API. Each call has a client of its own, on a stream in memory, that acts as the
// caller. So the call passes the same steps as the call of any client. The messages are kept
// in memory for a while, for the session of that caller alone.
package tries

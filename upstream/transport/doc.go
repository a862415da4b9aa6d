// Package transport carries messages between the gateway and one MCP server: over the
// standard streams of a process, over streamable HTTP and over HTTP+SSE.
//
// [KindOf] finds a transport by its name in the configuration; its Dial opens a [Link].
// A link knows framing and which answer belongs to which request. What the messages
// mean, which revision is spoken and when a call has taken too long is decided by
// package upstream, which uses the links.
//
// A transport whose requests share one channel is built on [Mux]; one that sends a
// message a line on the pipe of pipe.go. docs/extending.md adds one.
package transport

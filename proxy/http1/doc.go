// Package http1 serves the plain form of HTTP/1.1 (RFC 9112) that clients of MCP send, and
// leaves everything else to net/http: a connection whose next request is not plain goes over
// to its server, with what was received of it.
//
// A plain request is a GET or DELETE without a body, or a POST whose length is told, with a head
// that fits into one buffer and in which nothing is told twice. For handlers there is no
// difference between the two servers but what it costs: this one has no goroutine besides
// that of a connection, no buffer while a client or a handler waits, and writes a response at once.
// See docs/adr/0063-serving-http1.md.
package http1

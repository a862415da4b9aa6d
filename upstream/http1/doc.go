// Package http1 sends requests over HTTP/1.1 connections that carry one request and its
// answer at a time (RFC 9112). The goroutine of the caller writes the request and reads the
// answer itself: no other goroutine belongs to a connection, and none has to be woken.
//
// It reads what a server sends strictly. net/http does the rest. It sends requests with
// other schemes, proxies, other methods or large bodies. And its parser reads an answer of an
// unusual form, from the first byte on.
package http1

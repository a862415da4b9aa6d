// Package http1 sends requests over HTTP/1.1 connections that carry one request and its
// answer at a time (RFC 9112). The goroutine of the caller writes the request and reads the
// answer itself: no other goroutine belongs to a connection, and none has to be woken.
//
// It reads what a server sends strictly. What is not plain stays with net/http: other
// schemes, proxies, methods and large bodies before anything is sent, and an answer of an
// unusual form by the parser of net/http, which then reads the same bytes.
package http1

// Package proxy is the gateway itself: it speaks MCP to clients, merges what
// all backends offer into one catalog, and passes every call through one order of
// steps.
//
//	stdio.go  sse.go  http.go           front bindings: bytes in, bytes out
//	        \    |    /
//	        Exchange                    one client request with its way back
//	            │
//	        methods.go                  which method does what
//	        /        \
//	  list.go     pipeline.go           lists and calls ask the same gate; plan.go says what
//	        \        /                  each kind of request leaves out of the steps of a call
//	        Snapshot                    catalog, gate and limits of one generation
//	            │
//	         Backend                    an upstream server or the native host
//
// The package declares the interfaces that it needs ([Backend], [Auditor],
// [Authenticator]) and knows none of their implementations. Nothing in a
// [Snapshot] changes once it is published; a change makes a new one.
package proxy

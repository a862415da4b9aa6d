// Package proxy is the gateway itself. It speaks MCP to clients, merges the lists of
// all backends into one catalog, and takes every call through the same security steps.
//
//	stdio.go  channel.go  http.go       bindings: bytes in, bytes out
//	        \    |    /
//	        Exchange                    one client request and the way back to its client
//	            │
//	        methods.go                  dispatch by method
//	        /        \
//	  list.go     call.go               a call and everything that is known of it
//	       |         │
//	       |      pipeline.go           the one order of steps; plan.go says which of them
//	        \        /                  each kind of request leaves out, and why
//	        Snapshot                    catalog, gate and limits of one generation
//	            │
//	         Backend                    an upstream server or the native host
//
// The package declares the interfaces that it needs ([Backend], [Auditor],
// [Authenticator]) and imports none of their implementations. A [Snapshot] never
// changes once it is published; every change makes a new one.
package proxy

// Package relay carries the one client of a `toolgate stdio` from gateway to gateway.
// When the gateway that serves it goes away, the client stays and continues with the next
// one.
package relay

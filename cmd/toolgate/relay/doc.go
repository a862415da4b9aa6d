// Package relay carries the one client of a `toolgate stdio` from gateway to gateway:
// when the gateway that serves it goes away, the client stays and goes on with the next.
package relay

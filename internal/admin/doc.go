// Package admin is the control API of a running gateway: a local socket that only the
// gateway's user can reach, and the client for it.
//
// The socket has mode 0600. The uid of the peer is compared if the system reveals it, and
// every request carries the admin token of the state folder. `toolgate stdio` uses the
// same socket; its client then speaks MCP on it.
package admin

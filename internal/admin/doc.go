// Package admin is the control side of a running gateway: a local socket that
// only its user reaches, and the client for it.
//
// The socket has mode 0600, the uid of the peer is compared where the system
// tells it, and every request carries the admin token of the state folder. The
// same socket takes in `toolgate stdio`, whose client then speaks MCP on it.
package admin

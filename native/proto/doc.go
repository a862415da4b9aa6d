// Package proto is the protocol between toolgate and its plugins: plugin.proto,
// for plugins in any language, and what is generated from it for Go.
package proto

// Version is that of the protocol, which the handshake names.
const Version = 1

// The cookie tells a plugin that it was started by toolgate and not by hand; it
// keeps nobody out.
const (
	CookieKey   = "TOOLGATE_PLUGIN"
	CookieValue = "5a6c0b86a5f2-tool-plugin"
)

//go:generate go run ./generate

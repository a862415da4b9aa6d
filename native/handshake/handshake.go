// Package handshake answers the handshake of go-plugin in the process of a shipped
// plugin. Go initialises, among the packages whose imports are initialised, the one with
// the smallest path first. This package imports next to nothing, so it comes long before
// the rest of the program.
package handshake

import "os"

// Argument is the first argument of a process that serves a shipped plugin; the
// second is the plugin's name.
const Argument = "__plugin"

// The line of the handshake, and the cookie that tells a plugin that it was started by
// its host and not by hand. They are those of native/proto, which would bring along
// what this package does without; a test compares them.
const (
	CookieKey   = "TOOLGATE_PLUGIN"
	CookieValue = "5a6c0b86a5f2-tool-plugin"
	Line        = "1|1|unix|stdio|grpc\n"
)

// Chosen is the plugin that this process serves; empty in every other process. In
// and Out lead to its host. None is changed once it is initialised.
var (
	Chosen  string
	In, Out *os.File
)

func init() {
	if len(os.Args) < 3 || os.Args[1] != Argument {
		return
	}
	if os.Getenv(CookieKey) != CookieValue {
		_, _ = os.Stderr.WriteString("toolgate: this is how toolgate starts its own tools; it is of no use by hand\n")
		os.Exit(1)
	}
	Chosen, In, Out = os.Args[2], os.Stdin, os.Stdout
	os.Stdout = os.Stderr // what a tool prints is no part of the protocol
	if _, err := Out.WriteString(Line); err != nil {
		os.Exit(1)
	}
}

package transport

import (
	"context"
	"log/slog"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/upstream/http1"
)

// kinds are the transports by their names in the configuration. A transport is a file of
// this package and a line here.
var kinds = map[string]Kind{
	"stdio": {Dial: dialStdio},
	"http":  {Dial: dialStreamable, Separate: true},
	"sse":   {Dial: dialSSE, LegacyOnly: true},
}

// Kind is a transport.
type Kind struct {
	// Dial opens a link; the context bounds the attempt, not the life of the link. inbound
	// receives every message that belongs to no request, one after the other. It may be
	// called before Dial returns.
	Dial func(ctx context.Context, o *Options, inbound func(mcp.Message)) (Link, error)
	// Separate tells that each request has its own channel. Otherwise all requests share
	// one, and a message of the server may belong to any of them.
	Separate bool
	// Scheme is that of the addresses that the transport takes; empty for http and https,
	// and for a transport that takes no address.
	Scheme string
	// LegacyOnly tells that the transport exists only in revisions before 2026-07-28.
	LegacyOnly bool
}

// KindOf returns the transport with a name of the configuration; ok is false if there is
// none.
func KindOf(name string) (kind Kind, ok bool) {
	kind, ok = kinds[name]
	return kind, ok
}

// Options describe a server to a transport. Each transport reads the fields that it needs.
type Options struct {
	Command string   // of the process
	Args    []string // of the command
	Dir     string   // of the process
	Env     []string // complete; nothing is inherited
	// Sandbox confines the process; nil does not.
	Sandbox *sandbox.Policy

	URL        string
	Pool       *http1.Pool // of the server alone; see [NewPool]
	Credential Credential
	Principal  string // whose credential is sent

	// Server is the name of the server, and Placed reaches its process, where it may run at
	// another gateway.
	Server string
	Placed Placed

	// Several tells that several principals share the link. Then no message is attributed
	// to a call because it is the only one in flight.
	Several bool
	Limits  Limits
	Log     *slog.Logger
}

// Limits bound what a server may send and what is held of it. All fields are required.
type Limits struct {
	Result int // bytes of one answer, and of the notifications that wait for one call
	Line   int // bytes of one line of a process
	Depth  int // nesting of one message
	Events int // notifications that wait for one call
}

package transport

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/toolgate/toolgate/internal/mcp"
)

// The names of the transports in the configuration.
const (
	nameStdio      = "stdio"
	nameStreamable = "http"
	nameSSE        = "sse"
)

// kinds are the transports, by the names that the configuration has for them. A
// transport is a file of this package and a line here.
var kinds = map[string]Kind{
	nameStdio:      {Dial: dialStdio},
	nameStreamable: {Dial: dialStreamable, Separate: true},
	nameSSE:        {Dial: dialSSE, LegacyOnly: true},
}

// Kind is a transport. Without a function to dial it is none.
type Kind struct {
	// Dial opens a link as long as the context lasts; the link itself lasts until it
	// is closed. inbound receives every message that belongs to no request, one after
	// the other, and may be called before dial returns.
	Dial func(ctx context.Context, o *Options, inbound func(mcp.Message)) (Link, error)
	// Separate tells that each request has a channel of its own. Otherwise all
	// requests share one, and what the server says there may be of any of them.
	Separate bool
	// LegacyOnly tells that the transport has no revision from 2026-07-28 on.
	LegacyOnly bool
}

// KindOf returns the transport with a name of the configuration; ok is false where there
// is none.
func KindOf(name string) (kind Kind, ok bool) {
	kind, ok = kinds[name]
	return kind, ok
}

// Options are what a transport is told about a server. It reads what it needs.
type Options struct {
	Command string   // of the process
	Args    []string // of the command
	Dir     string   // of the process
	Env     []string // complete; nothing is inherited

	URL        string
	Pool       *http.Transport // of the server alone; see [NewPool]
	Credential Credential
	Principal  string // whose credential is sent

	// Several tells that principals share the link: then nothing is attributed to a
	// call because it is the only one in flight.
	Several bool
	Limits  Limits
	Log     *slog.Logger
}

// Limits bound what a server may send, and what is held of it. All are needed.
type Limits struct {
	Result int // bytes of one answer, and of the notifications that wait for one call
	Line   int // bytes of one line of a process
	Depth  int // nesting of one message
	Events int // notifications that wait for one call
}

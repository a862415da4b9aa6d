package mcp

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/arena"
)

// Kind is a kind of item that a server offers and the gate decides on.
type Kind uint8

// The four kinds. The zero Kind is none.
const (
	NoKind Kind = iota
	Tool
	Prompt
	Resource
	Template
)

// Kinds are the four kinds in listing order.
var Kinds = [...]Kind{Tool, Prompt, Resource, Template}

// String returns the kind's name in the configuration, audit log and policies.
func (c Kind) String() string {
	switch c {
	case Tool:
		return "tool"
	case Prompt:
		return "prompt"
	case Resource:
		return "resource"
	case Template:
		return "template"
	default:
		return "none"
	}
}

// ListMethod is the method that lists the kind.
func (c Kind) ListMethod() string {
	switch c {
	case Tool:
		return MethodToolsList
	case Prompt:
		return MethodPromptsList
	case Resource:
		return MethodResources
	case Template:
		return MethodTemplates
	default:
		return ""
	}
}

// ListKey is the member of a list result that holds the kind's items.
func (c Kind) ListKey() string {
	switch c {
	case Tool:
		return "tools"
	case Prompt:
		return "prompts"
	case Resource:
		return "resources"
	case Template:
		return "resourceTemplates"
	default:
		return ""
	}
}

// KeyMember is the member of an item that names it.
func (c Kind) KeyMember() string {
	switch c {
	case Tool, Prompt:
		return "name"
	case Resource:
		return "uri"
	case Template:
		return "uriTemplate"
	default:
		return ""
	}
}

// Feature is the member of the server capabilities under which the kind is
// declared.
func (c Kind) Feature() string {
	switch c {
	case Tool:
		return "tools"
	case Prompt:
		return "prompts"
	case Resource, Template:
		return "resources"
	default:
		return ""
	}
}

// Changed is the notification that announces a changed list of the kind.
func (c Kind) Changed() string {
	switch c {
	case Tool:
		return NotifyToolsChanged
	case Prompt:
		return NotifyPromptsChanged
	case Resource, Template:
		return NotifyResourcesChanged
	default:
		return ""
	}
}

// State is the state of a backend.
type State uint8

// The states. The zero State is starting.
const (
	Starting State = iota
	Ready
	Reconnecting
	Degraded
	Stale
	NeedsLogin
	Failed
	Disabled
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case Starting:
		return "starting"
	case Ready:
		return "ready"
	case Reconnecting:
		return "reconnecting"
	case Degraded:
		return "degraded"
	case Stale:
		return "stale"
	case NeedsLogin:
		return "needs_login"
	case Failed:
		return "failed"
	case Disabled:
		return "disabled"
	default:
		return "unknown"
	}
}

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *State) UnmarshalText(text []byte) error {
	for c := Starting; c <= Disabled; c++ {
		if c.String() == string(text) {
			*s = c
			return nil
		}
	}
	return fmt.Errorf("unknown state %q", text)
}

// Status is the state of a backend with its reason, for people.
type Status struct {
	State  State
	Reason string    // a sentence; may be empty
	Since  time.Time // when the state was entered
}

// Call is one request on its way to a backend. The backend does not modify it, and does
// not keep it after its answer.
type Call struct {
	Method string
	// Params is the params object, with the server's own names and without hop keys in
	// _meta; nil when there is none.
	Params []byte
	// Kind and Key identify the listed item that the call is about, if any.
	Kind Kind
	Key  string

	// Era is the era that the client needs. A server that speaks both is called in it.
	// Unknown stands for that of the gateway's own connection.
	Era Era

	// Capabilities are the raw client capabilities that the server may rely on for this
	// call; nil for none.
	Capabilities []byte
	// Exact means that a server that remembers client capabilities must not rely on
	// more than these for this call.
	Exact bool
	// WithoutCapabilities means that the client sees the listing for clients without capabilities
	// (see [Listing]), so that the call needs a connection with that listing.
	WithoutCapabilities bool
	// LogLevel requests log messages of this call; empty for none.
	LogLevel string
	// Progress requests progress notifications.
	Progress bool
	// Unattended means that the call runs as a task of its own, so that nobody waits for it.
	Unattended bool
	// Headers are Mcp-Param-* headers that belong to no listed argument.
	Headers http.Header

	// Timeout replaces the server's call timeout, Idle its limit for the silence of a
	// call that has reported progress, and Hard its limit for the whole call. 0 keeps
	// the server's.
	Timeout, Idle, Hard time.Duration

	// Permit is what let the call through to its backend beforehand. Only its issuer
	// reads it. It may be nil.
	Permit any

	// StillAllowed decides again on the call. A backend that lets a call wait asks it
	// before the call begins, and returns its error instead. It may be called at any time,
	// also after the request has ended. nil allows the call.
	StillAllowed func(ctx context.Context) error

	// Principal is the injective key of the caller, Session its legacy session or
	// connection. Both select the connection.
	Principal string
	Session   string
	// Rights identifies the principal with everything that decides its requests, Token
	// the token that it presented, empty for none. They select the credential where the
	// server gets a different one for each.
	Rights string
	Token  string

	// Conn is the connection that the call must use, from an [Answer]. If it is gone
	// the call fails with [FailGone]. Empty means any.
	Conn string

	// Memory lends what a large result lies in, for as long as its owner says. nil lends
	// nothing. A backend may leave it unused.
	Memory *arena.Arena

	// Detach gives a copy of the call that goes on after the request what it needs without
	// that, and returns a context for it; see [Call.Detached]. nil keeps what there is.
	Detach func(own *Call) context.Context

	// Nested makes further calls for the caller of this one. It is nil where none may be
	// made: the call is nested too deeply already.
	Nested NestedCaller

	// Heard counts the notifications and requests that Notify and Ask were given, each before
	// they do anything with it. It is nil where they do not count.
	Heard *atomic.Int64
	// Notify receives the notifications of this call, in order and before the answer,
	// from one goroutine at a time. It does not block. nil drops them.
	Notify func(method string, params []byte)
	// Askable means that the client can answer requests of the server.
	Askable bool
	// Ask relays a request of the server that belongs to this call. It does not wait
	// for the client. It calls reply once, with the client's result or an error,
	// possibly before Ask returns, and at the latest when ctx has ended. nil refuses
	// requests.
	Ask func(ctx context.Context, method string, params []byte, reply func(result []byte, fault *Error))
}

// Detached returns a copy of the call for work that goes on once its request has ended, such as a
// task, and a context that does not end with that of the request. Nobody can be asked or told
// anything by it, and it does not hold what belongs to the request.
func (c *Call) Detached(ctx context.Context) (context.Context, *Call) {
	own := *c
	own.Params, own.Headers = bytes.Clone(c.Params), c.Headers.Clone()
	own.Capabilities, own.Permit, own.Memory, own.Nested, own.Detach = nil, nil, nil, Detached(c.Nested), nil
	own.Heard, own.Notify, own.Askable, own.Ask, own.Progress = nil, nil, false, nil, false
	own.Unattended = true
	if c.Detach == nil {
		return context.WithoutCancel(ctx), &own
	}
	return c.Detach(&own), &own
}

// AskAndWait is [Call.Ask] that waits for the client's answer.
func (c *Call) AskAndWait(ctx context.Context, method string, params []byte) (result []byte, fault *Error) {
	done := make(chan struct{})
	c.Ask(ctx, method, params, func(r []byte, f *Error) {
		result, fault = r, f
		close(done)
	})
	<-done
	return result, fault
}

// Answer is a server's answer: a result or a JSON-RPC error, verbatim.
type Answer struct {
	Result []byte // raw result object; nil when Fault is set
	Fault  *Error
	// Era is the era of the server's connection.
	Era Era
	// Conn names the connection of a legacy server, which keeps tasks and other state
	// per connection. The name is unique among all gateways. It is empty where any
	// connection will do.
	Conn string
	// Known is what is known of Result.
	Known Known
}

// FailureKind classifies why a backend gave no answer.
type FailureKind string

// The kinds. They are stable and appear in refusals and audit entries.
const (
	FailUnavailable FailureKind = "upstream_unavailable" // not connected, or the connection was lost
	FailTimeout     FailureKind = "upstream_timeout"     // no answer within the deadline
	FailProtocol    FailureKind = "upstream_error"       // not an MCP response
	FailTooLarge    FailureKind = "upstream_too_large"   // a response above the size limit
	FailLogin       FailureKind = "needs_login"          // 401 or 403
	FailBusy        FailureKind = "upstream_busy"        // no room in its queue
	FailDisabled    FailureKind = "upstream_disabled"    // disabled or misconfigured
	FailGone        FailureKind = "upstream_gone"        // the required connection is gone
	FailGivenUp     FailureKind = "call_lost"            // its client did not answer a question, and others needed its connection
)

// Failure is why a backend gave no answer.
type Failure struct {
	Kind   FailureKind
	Origin Origin
	Server string
	Reason string // a sentence for people, without secrets
	// Delivered means that the server may have seen the request.
	Delivered bool
	// Status is the HTTP status with which the server refused the request; 0 for none.
	Status int
	// RetryAfter is how long the server asks clients to wait; 0 where it does not say.
	RetryAfter time.Duration
	// Renewed means that the server did not run the request, and that the cause was
	// repaired: a forgotten session, a closed connection, or headers made from an old
	// schema.
	Renewed bool
	Err     error // for the log; may be nil
}

// Error implements error.
func (f *Failure) Error() string {
	if f.Reason == "" {
		return string(f.Kind)
	}
	return f.Reason
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Event is a notification of a server outside of calls.
type Event struct {
	Server string
	// Principal and Session own the connection of the event; both are empty for a
	// shared connection.
	Principal string
	Session   string
	// Rights are those of the [Call]s that share the connection, where the server gets
	// a credential for each; else empty.
	Rights string
	Conn   string // as in [Answer]
	// WithoutCapabilities means that the server was told on this connection that it may ask nothing,
	// although it may on others.
	WithoutCapabilities bool
	Era                 Era // of the connection
	Method              string
	Params              []byte
}

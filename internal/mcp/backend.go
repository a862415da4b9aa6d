package mcp

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Kind is a kind of thing that a server offers and the gate decides on.
type Kind uint8

// The four kinds. The zero Kind is none.
const (
	NoKind Kind = iota
	Tool
	Prompt
	Resource
	Template
)

// Kinds are the four kinds in the order in which they are listed.
var Kinds = [...]Kind{Tool, Prompt, Resource, Template}

// String returns the kind's name as configuration, audit and policies write it.
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

// State is what a backend is doing.
type State uint8

// The states of a backend. The zero State is starting.
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

// Status is the state of a backend with its reason, for a person.
type Status struct {
	State  State
	Reason string    // a sentence; empty when there is nothing to say
	Since  time.Time // when the state was entered
}

// Call is one request on its way to a backend. The backend does not change it
// and does not keep it after it has answered.
type Call struct {
	Method string
	// Params is the params object with the server's own names and without hop
	// keys in _meta; nil when there are none.
	Params []byte
	// Kind and Key name the listed item that the call is about, where it is
	// about one.
	Kind Kind
	Key  string

	// Era is the one that the client needs. A server that speaks both is called in it;
	// unknown is that of the gateway's own connection.
	Era Era

	// Capabilities are the client capabilities, raw, that the server may rely
	// on for this call; nil means none.
	Capabilities []byte
	// Exact tells that a server which keeps what it was told of its clients
	// must not rely on more for this call.
	Exact bool
	// Plain tells that the call is of a client which is shown the plain listing
	// (see [Listing]), so that it belongs on a connection that lists the same.
	Plain bool
	// LogLevel asks for log messages of this call; empty means none.
	LogLevel string
	// Progress asks for progress notifications.
	Progress bool
	// Headers are Mcp-Param-* headers that belong to no listed argument.
	Headers http.Header

	// Timeout replaces the server's call timeout, Idle its bound for the silence
	// of a call that has reported progress, and Hard its bound for the whole call;
	// 0 keeps each.
	Timeout, Idle, Hard time.Duration

	// Permit is what let the call through to its backend before it was made; only
	// who gave it reads it. Nil where nothing did.
	Permit any

	// Principal is the injective key of who calls, Session the legacy session
	// or connection it comes from; both choose the connection.
	Principal string
	Session   string
	// Rights stands for the principal with all that its requests are decided by;
	// Token for the token that it presented, empty for none. Both are of the request
	// that the call is made for, and choose the credential at a server that is shown
	// another one for each.
	Rights string
	Token  string

	// Conn is the connection that the call must take, as an [Answer] named it.
	// Where it is gone the call fails with [FailGone]. Empty leaves the choice.
	Conn string

	// Notify receives the notifications that belong to this call, in order and
	// before the answer, from one goroutine at a time. It does not block. Nil
	// drops them.
	Notify func(method string, params []byte)
	// Askable tells that the client can be asked something.
	Askable bool
	// Ask relays a request of the server that this call caused. It does not
	// wait for the client: reply is called once, with the client's result or
	// the fault that stands for it, by whoever brings the answer, which may be
	// before Ask returns, and at the latest when the context has ended. Nil
	// refuses.
	Ask func(ctx context.Context, method string, params []byte, reply func(result []byte, fault *Error))
}

// Inquire is [Call.Ask] for one that waits for the answer.
func (c *Call) Inquire(ctx context.Context, method string, params []byte) (result []byte, fault *Error) {
	done := make(chan struct{})
	c.Ask(ctx, method, params, func(r []byte, f *Error) {
		result, fault = r, f
		close(done)
	})
	<-done
	return result, fault
}

// Answer is what a server answered: a result or a fault, verbatim.
type Answer struct {
	Result []byte // the raw result object; nil when Fault is set
	Fault  *Error
	// Era is the era in which the server answered.
	Era Era
	// Conn names the connection that a legacy server answered on: what such a
	// server keeps for its client, it keeps for that connection. The name is
	// unique, also among gateways. Empty where any connection will do.
	Conn string
}

// FailureKind classes why a backend gave no answer.
type FailureKind string

// The kinds; they are stable and appear in refusals and audit entries.
const (
	FailUnavailable FailureKind = "upstream_unavailable" // not connected, or the connection was lost
	FailTimeout     FailureKind = "upstream_timeout"     // no answer within the deadline
	FailProtocol    FailureKind = "upstream_error"       // an answer that is no MCP
	FailTooLarge    FailureKind = "upstream_too_large"   // an answer beyond the size limit
	FailLogin       FailureKind = "needs_login"          // 401 or 403
	FailBusy        FailureKind = "upstream_busy"        // no place in its queue
	FailDisabled    FailureKind = "upstream_disabled"    // switched off or misconfigured
	FailGone        FailureKind = "upstream_gone"        // the connection that the call must take is no more
	FailGivenUp     FailureKind = "call_lost"            // its client did not answer a question, and others needed its connection
)

// Failure is why a backend gave no answer.
type Failure struct {
	Kind   FailureKind
	Origin Origin
	Server string
	Reason string // a sentence for a person, without secrets
	// Delivered tells that the server may have seen the request.
	Delivered bool
	// Status is the HTTP status that the server refused the request with; 0
	// where there was none.
	Status int
	// RetryAfter is how long the server asks to be left alone; 0 where it does
	// not say.
	RetryAfter time.Duration
	// Renewed tells that the server did not run the request, and that what stood in
	// its way is mended by now: a session that was forgotten, a connection that had
	// ended, headers made of an old schema.
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

// Event is something that a server said outside any call.
type Event struct {
	Server string
	// Principal and Session own the connection that it came over; both are
	// empty for a connection that several share.
	Principal string
	Session   string
	// Rights are those of the [Call]s that share the connection, where the server is
	// shown a credential for each; else empty.
	Rights string
	Conn   string // as an [Answer] names it
	// Plain tells that it came over a connection on which the server was told
	// that it may ask nothing, although it may elsewhere.
	Plain  bool
	Era    Era // in which the server speaks on that connection
	Method string
	Params []byte
}

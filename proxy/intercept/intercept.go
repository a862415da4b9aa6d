package intercept

import "context"

// Phase is when an interceptor is asked.
type Phase string

// The phases.
const (
	Before Phase = "before" // the call is delivered next
	After  Phase = "after"  // the client gets the result next
	// List is when a definition is new. Interceptors are asked once about each, whoever
	// is listed it, and may withhold it or leave a note. The call has no ID, principal,
	// tenant and capsule then.
	List Phase = "list"
)

// Call is what interceptors are told of a call.
type Call struct {
	ID        string // in the audit log
	Method    string // tools/call, prompts/get or resources/read
	Principal string
	Tenant    string // empty without one
	Capsule   string // of the endpoint; empty on the main one
	Server    string // key in the configuration
	Name      string // exposed name or URI
}

// Invocation is one question to an interceptor. It must not be changed.
type Invocation struct {
	*Call
	Phase Phase
	// Payload is a JSON object: the arguments before a call, by the schema of the server
	// and without those that the operator sets, and the result after it. In a list it is
	// the definition.
	Payload []byte
}

// Effect is what an interceptor decides. The zero Effect denies.
type Effect int

// The effects.
const (
	Deny Effect = iota
	Ask         // a person has to approve of the call; only before it
	Pass
)

// Verdict is the answer of an interceptor. The zero Verdict denies.
type Verdict struct {
	Effect Effect
	// Reason says why in a few words, for the client and the audit log.
	Reason string
	// Payload is another object in place of that of the invocation; nil leaves it.
	Payload []byte
	// Note is a text that the client gets with the result or the definition; not before a
	// call.
	Note string
}

// Interceptor looks at calls. It is safe for concurrent use. An error means that it has
// not decided.
type Interceptor interface {
	Intercept(ctx context.Context, inv *Invocation) (Verdict, error)
}

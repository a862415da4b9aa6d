package mcp

import "context"

// NestedCaller makes calls of tools for a backend, within a call or for a caller that is
// not there at the moment. Each nested call is made as the caller of that call, through the
// whole order of the gateway: it is decided, approved, charged and recorded as if the
// caller had made it. Nothing that a backend says widens what the caller may do, but for a
// capsule that the operator lends to a tool (RunAs).
//
// Its methods are safe for concurrent use, and block until they are done or ctx has ended.
type NestedCaller interface {
	// Tools returns what the caller may view now, sorted by name; whether it may call a tool
	// can depend on the arguments. The error says why that cannot be told.
	Tools(ctx context.Context, as NestedAs) ([]NestedTool, error)
	// Call makes a call and waits for its answer. It cancels the call when ctx ends.
	Call(ctx context.Context, as NestedAs, call NestedCall) NestedAnswer
}

// Detached returns what makes nested calls for a call whose request has ended, such as a
// task: nobody can be asked then. nil for nil.
func Detached(n NestedCaller) NestedCaller {
	if d, ok := n.(interface{ Detached() NestedCaller }); ok {
		return d.Detached()
	}
	return n
}

// NestedAs is on whose behalf nested calls are made besides the caller's, and what narrows
// them. The zero NestedAs is the caller, no less and no more.
type NestedAs struct {
	// Agent is who calls for the caller, in audit entries, policies and budgets; empty for
	// the caller itself. An agent that is named twice on the way to a call is a cycle, which
	// is refused.
	Agent string
	// Capsule is one that has to allow the call as well, whoever holds it; empty for none.
	Capsule string
	// Only holds the exposed names that may be called. nil is no limit, and an empty list
	// allows nothing.
	Only []string
	// RunAs is a capsule that decides on the call in place of those that the caller holds.
	// It comes from the operator's file, and nothing that is called with it makes nested
	// calls of its own. Empty for none.
	RunAs string
}

// NestedTool is a tool that a nested call can name.
type NestedTool struct {
	Name        string // exposed
	Title       string
	Description string
	Input       []byte // JSON Schema of the arguments, an object; shared, and never changed
	Output      []byte // JSON Schema of the structured result; nil for none; shared, and never changed
	// ReadOnly and Idempotent are what the operator or the tool says; false where it is
	// unknown.
	ReadOnly, Idempotent bool
}

// NestedCall is one call of a tool.
type NestedCall struct {
	Tool string // exposed name
	Args []byte // a JSON object; nil for none
}

// NestedAnswer is what became of a nested call. Either Result or Fault is set.
type NestedAnswer struct {
	CallID string // in the audit log; empty where no call was made
	Result []byte // a tool result, which may be an error of the tool
	Fault  *Error // a refusal, or an error of the server
	// Delivered means that the server may have run the call.
	Delivered bool
}

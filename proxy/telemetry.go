package proxy

import (
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/intercept"
)

// Tracer creates spans. It is safe for concurrent use.
type Tracer interface {
	// Begin begins the span of a call with the W3C trace context of its request, whose
	// parts may be empty or malformed. It returns nil for a call that is not traced.
	Begin(traceparent, tracestate string, began time.Time) Span
}

// Span is the span of one call. It is used by one goroutine at a time, and keeps no entry.
type Span interface {
	// TraceID returns the id of the trace in hexadecimal.
	TraceID() string
	// Send begins the request to a server and returns the trace context for the server;
	// tracestate may be empty.
	Send(e *audit.Entry) (traceparent, tracestate string)
	// Received ends the request to the server. fault is the server's JSON-RPC error,
	// nil without one.
	Received(e *audit.Entry, fault *mcp.Error, err error)
	// Suspended ends the span of a round whose call continues with another request.
	Suspended()
	// End ends the span of the call; the entry is complete. After Suspended it has no
	// effect. Both may be called concurrently.
	End(e *audit.Entry)
}

// trace begins the span of a call, if the call is traced. The trace context in _meta
// takes precedence over the HTTP headers.
func (rec *record) trace() {
	t := rec.g.opts.Tracer
	if t == nil {
		return
	}
	m := &rec.x.Message
	parent, _ := mcp.Unquote(m.Meta(metaTraceparent))
	state, _ := mcp.Unquote(m.Meta(metaTracestate))
	if parent == "" && rec.x.Header != nil {
		parent, state = rec.x.Header.Get("Traceparent"), rec.x.Header.Get("Tracestate")
	}
	if rec.span = t.Begin(parent, state, rec.began); rec.span != nil {
		rec.entry.TraceID = rec.span.TraceID()
	}
}

// Members of _meta with the trace context (SEP-414).
const (
	metaTraceparent = "traceparent"
	metaTracestate  = "tracestate"
)

// withTraceContext begins the request to a server, and puts the context of its span
// into the params. Other members of _meta, such as baggage, stay. The params of a call
// that is not traced are returned unchanged.
func (rec *record) withTraceContext(params []byte) []byte {
	if rec.span == nil {
		return params
	}
	parent, state := rec.span.Send(&rec.entry)
	meta := mcp.Lookup(params, "_meta")
	if !mcp.IsObject(meta) {
		meta = []byte("{}")
	}
	meta = mcp.SetMember(meta, metaTraceparent, mcp.Quote(parent))
	if state == "" {
		meta = mcp.RemoveMember(meta, metaTracestate)
	} else {
		meta = mcp.SetMember(meta, metaTracestate, mcp.Quote(state))
	}
	if params == nil {
		params = []byte("{}")
	}
	return mcp.SetMember(params, "_meta", meta)
}

// Metrics are called for events that are counted. Nil fields, and a nil Metrics, count
// nothing. The functions must not block.
type Metrics struct {
	// Call is called once for each closed call, with its audit entry, which it must not keep.
	Call func(*audit.Entry)
	// Served is called once for each request that calls nothing, such as a list.
	// transport is the binding.
	Served func(method, transport string, took time.Duration, failed bool)
	// Listed is called for the first page of each list of tools, with the persona of
	// the caller and the number of tools on it.
	Listed func(persona string, tools int)
	// Sessions is called with the number of open legacy sessions.
	Sessions func(int)
	// SessionEnded is called when a client's session has ended.
	SessionEnded func(transport string, lasted time.Duration)
	// Limited is called for each refusal by a limit, with the name of its setting, as
	// in "lists_per_minute".
	Limited func(setting string)
	// Redacted is called with the number of secrets that were removed from one message
	// of a server.
	Redacted func(server string, n int)
	// Intercepted is called for each answer of an interceptor.
	Intercepted func(intercept.Event)
}

func (m *Metrics) intercepted(e intercept.Event) {
	if m != nil && m.Intercepted != nil {
		m.Intercepted(e)
	}
}

func (m *Metrics) call(e *audit.Entry) {
	if m != nil && m.Call != nil {
		m.Call(e)
	}
}

func (m *Metrics) served(method, transport string, began time.Time, failed bool) {
	if m != nil && m.Served != nil {
		m.Served(method, transport, time.Since(began), failed)
	}
}

func (m *Metrics) listed(persona string, tools int) {
	if m != nil && m.Listed != nil {
		m.Listed(persona, tools)
	}
}

func (m *Metrics) sessionEnded(transport string, began time.Time) {
	if m != nil && m.SessionEnded != nil {
		m.SessionEnded(transport, time.Since(began))
	}
}

func (m *Metrics) sessions(n int) {
	if m != nil && m.Sessions != nil {
		m.Sessions(n)
	}
}

func (m *Metrics) limited(setting string) {
	if m != nil && m.Limited != nil {
		m.Limited(setting)
	}
}

func (m *Metrics) redacted(server string, n int) {
	if m != nil && m.Redacted != nil {
		m.Redacted(server, n)
	}
}

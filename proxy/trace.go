package proxy

import (
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Tracer begins spans. It is safe for concurrent use.
type Tracer interface {
	// Begin begins the span of a call that came with a W3C trace context, whose
	// parts may be empty or malformed. It returns nil for a call that is not
	// traced.
	Begin(traceparent, tracestate string, began time.Time) Span
}

// Span is a call that is traced. It is used by one goroutine at a time.
type Span interface {
	// TraceID is the id of the trace in hexadecimal.
	TraceID() string
	// Send begins the request to a server and returns the context that the
	// server is to be told; tracestate may be empty.
	Send(e *audit.Entry) (traceparent, tracestate string)
	// Received ends the request to the server. fault is nil for an answer
	// without one.
	Received(e *audit.Entry, fault *mcp.Error, err error)
	// Parked ends the span of a round whose call goes on with another request.
	Parked()
	// End ends the span of the call; the entry is complete. It may be called
	// after Parked, and at the same time, and then has no effect.
	End(e *audit.Entry)
}

// trace begins the span of a call, if it is to be traced. What its caller says in
// _meta comes before what the headers of its request say.
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

// Members of _meta that carry a trace context (SEP-414).
const (
	metaTraceparent = "traceparent"
	metaTracestate  = "tracestate"
)

// tell begins the request to a server, and puts the context of its span into the
// params; all other members of _meta, such as baggage, stay. The params of a call
// that is not traced keep their bytes.
func (rec *record) tell(params []byte) []byte {
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

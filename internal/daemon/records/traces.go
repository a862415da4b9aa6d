package records

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/proxy"
)

// tracing makes the traces of a configuration; nil where nobody takes them.
func (r *Records) tracing(ctx context.Context, c *config.Config) (*telemetry.Traces, error) {
	t := &c.Toolgate.Telemetry
	if t.OTLP == "" {
		return nil, nil
	}
	// What the library has to say goes where everything else is said.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { r.log.Warn("traces", "err", err) }))
	traces, err := telemetry.NewTraces(ctx, telemetry.TraceOptions{
		Settings: *t, Version: version.Version, Instance: r.instance, Logger: r.log,
	})
	if err != nil {
		return nil, failure.Newf(failure.Config, "%s: telemetry.otlp: %w", c.Path, err)
	}
	r.metrics.WatchTraces(traces.Dropped)
	return traces, nil
}

// pushing makes what sends the metrics of a configuration to a collector; nil where
// nobody wants it.
func (r *Records) pushing(ctx context.Context, c *config.Config) (*telemetry.Push, error) {
	t := &c.Toolgate.Telemetry
	if t.Metrics == 0 {
		return nil, nil
	}
	push, err := telemetry.NewPush(ctx, r.metrics, telemetry.TraceOptions{
		Settings: *t, Version: version.Version, Instance: r.instance, Logger: r.log,
	})
	if err != nil {
		return nil, failure.Newf(failure.Config, "%s: telemetry.metrics: %w", c.Path, err)
	}
	return push, nil
}

// runPush sends the metrics until the context ends. That some cannot be sent is no
// failure of the gateway.
func (r *Records) runPush(ctx context.Context) error {
	if r.push == nil {
		return nil
	}
	if err := r.push.Run(ctx); err != nil {
		r.log.Warn("the sending of metrics does not end in order", "err", err)
	}
	return nil
}

// runTraces sends traces until the context ends. That some cannot be sent is no
// failure of the gateway.
func (r *Records) runTraces(ctx context.Context) error {
	if r.traces == nil {
		return nil
	}
	if err := r.traces.Run(ctx); err != nil {
		r.log.Warn("the last traces are not sent", "err", err)
	}
	return nil
}

// tracer is traces as the gateway uses them.
type tracer struct{ traces *telemetry.Traces }

// Begin implements [proxy.Tracer].
func (t tracer) Begin(traceparent, tracestate string, began time.Time) proxy.Span {
	span := t.traces.Begin(traceparent, tracestate, began)
	if span == nil {
		return nil // a nil pointer would be no nil interface
	}
	return &callSpan{Span: span}
}

// callSpan names things by the semantic conventions for MCP.
type callSpan struct {
	*telemetry.Span
	ended atomic.Bool
}

// Send implements [proxy.Span].
func (s *callSpan) Send(e *audit.Entry) (traceparent, tracestate string) {
	return s.Span.Send(append(named(e, e.OriginalName),
		attribute.String("mcp.method.name", e.Method), attribute.String("toolgate.server", e.Server))...)
}

// Received implements [proxy.Span].
func (s *callSpan) Received(e *audit.Entry, fault *mcp.Error, err error) {
	s.Span.Received(spanName(e, e.OriginalName), failureOf(fault, err))
}

// Suspended implements [proxy.Span].
func (s *callSpan) Suspended() {
	if !s.ended.CompareAndSwap(false, true) {
		return
	}
	s.Span.End("input required", "", attribute.String("toolgate.outcome", "input_required"))
}

// End implements [proxy.Span].
func (s *callSpan) End(e *audit.Entry) {
	if !s.ended.CompareAndSwap(false, true) {
		return
	}
	attributes := append(named(e, e.Name),
		attribute.String("mcp.method.name", e.Method), attribute.String("mcp.protocol.version", e.ProtocolVersion),
		attribute.String("network.transport", telemetry.Transport(e.Transport)),
		attribute.String("toolgate.call", e.CallID), attribute.String("toolgate.outcome", string(e.Outcome)),
	)
	if e.Server != "" {
		attributes = append(attributes, attribute.String("toolgate.server", e.Server))
	}
	if e.Session != "" { // a hash: the id itself is a credential
		attributes = append(attributes, attribute.String("mcp.session.id", e.Session))
	}
	if n := len(e.Steps); n > 0 && (e.Outcome == audit.OutcomeDenied || e.Outcome == audit.OutcomeError) {
		attributes = append(attributes, attribute.String("toolgate.phase", e.Steps[n-1].Phase))
	}
	s.phases(e)
	if _, err := strconv.Atoi(e.Code); err == nil {
		attributes = append(attributes, attribute.String("rpc.response.status_code", e.Code))
	}
	s.Span.End(spanName(e, e.Name), telemetry.ErrorType(string(e.Outcome), e.Code), attributes...)
}

// phases adds a span for each phase of the call. The times of one that went through
// several requests are those since the first, and tell nothing of this one.
func (s *callSpan) phases(e *audit.Entry) {
	if e.Rounds > 0 {
		return
	}
	for step, since := range stepsOf(e) {
		s.Span.Phase("toolgate "+step.Phase, since, time.Duration(step.US)*time.Microsecond, attribute.String("toolgate.decision", step.Verdict))
	}
}

// named are the attributes of what a call names: a tool or prompt that exists.
// URIs of resources can hold what is nobody's business, and are in the audit log
// alone.
func named(e *audit.Entry, name string) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, 12)
	switch {
	case e.Server == "":
	case e.Kind == "tool":
		out = append(out, attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", name))
	case e.Kind == "prompt":
		out = append(out, attribute.String("gen_ai.prompt.name", name))
	}
	return out
}

// spanName is the method with the name of a tool or prompt that exists.
func spanName(e *audit.Entry, name string) string {
	if e.Server == "" || e.Kind != "tool" && e.Kind != "prompt" || name == "" {
		return e.Method
	}
	return e.Method + " " + name
}

// failureOf is the error.type of a request to a server.
func failureOf(fault *mcp.Error, err error) string {
	switch failed := (*mcp.Failure)(nil); {
	case errors.As(err, &failed):
		return string(failed.Kind)
	case err != nil:
		return "cancelled"
	case fault != nil:
		return telemetry.ErrorType("error", strconv.Itoa(fault.Code))
	}
	return ""
}

package records

import (
	"context"
	"log/slog"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// loggedCalls writes each call of a tool to the log as well, by the event names of the
// third source document, section 4.2. The lines have no arguments and no results.
type loggedCalls struct {
	*audit.Log
	to slog.Handler // its level is not asked: the operator wants these lines
}

// Begin implements [proxy.Auditor].
func (l loggedCalls) Begin(e *audit.Entry) error {
	err := l.Log.Begin(e)
	if err == nil {
		l.write(e, "tool_call_started", slog.LevelInfo)
	}
	return err //nolint:wrapcheck // the log of calls adds nothing to it
}

// End implements [proxy.Auditor].
func (l loggedCalls) End(e *audit.Entry) error {
	l.ended(e)
	return l.Log.End(e) //nolint:wrapcheck // the log of calls adds nothing to it
}

// Append implements [proxy.Auditor].
func (l loggedCalls) Append(e *audit.Entry) error {
	l.ended(e)
	return l.Log.Append(e) //nolint:wrapcheck // the log of calls adds nothing to it
}

// ended writes how a call ended.
func (l loggedCalls) ended(e *audit.Entry) {
	latency := slog.Float64("latency_ms", float64(e.DurationUS)/1000)
	switch e.Outcome {
	case audit.OutcomeOK:
		l.write(e, "tool_call_completed", slog.LevelInfo, slog.Bool("success", true), latency)
	case audit.OutcomeDenied:
		l.write(e, "tool_call_blocked", slog.LevelWarn, slog.String("reason", e.Code), latency)
	default:
		l.write(e, "tool_call_failed", slog.LevelError, slog.String("error", errorClass(e)), latency)
	}
}

// write writes one line about a call of a tool.
func (l loggedCalls) write(e *audit.Entry, event string, level slog.Level, more ...slog.Attr) {
	if e.Method != mcp.MethodToolsCall {
		return
	}
	line := slog.NewRecord(e.Time, level, event, 0)
	line.AddAttrs(slog.String("tool_name", e.Name), slog.String("call", e.CallID))
	if e.TraceID != "" {
		line.AddAttrs(slog.String("trace_id", e.TraceID))
	}
	line.AddAttrs(more...)
	_ = l.to.Handle(context.Background(), line) // a log that cannot be written has nobody to tell
}

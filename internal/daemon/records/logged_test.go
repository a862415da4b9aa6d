package records

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
)

// Each call of a tool has its events in the log, whatever level the log has; other
// requests have none.
func TestLoggedCalls(t *testing.T) {
	log, err := audit.Open(filepath.Join(t.TempDir(), "audit.jsonl"), audit.Options{Key: audit.Key{ID: "k", Secret: bytes.Repeat([]byte{1}, 32)}, Replica: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var text bytes.Buffer
	calls := loggedCalls{log, slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelError, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})}
	entry := func(outcome audit.Outcome, code string) *audit.Entry {
		return &audit.Entry{
			Time: time.Now(), CallID: "c-1", Method: "tools/call", Kind: "tool", Name: "a__b", Outcome: outcome, Code: code, Reason: "hush", TraceID: "t1", DurationUS: 1500,
		}
	}
	tests := []struct {
		name  string
		write func(*audit.Entry) error
		entry *audit.Entry
		want  string
	}{
		{"it begins", calls.Begin, entry("", ""), "level=INFO msg=tool_call_started tool_name=a__b call=c-1 trace_id=t1"},
		{"it succeeds", calls.End, entry(audit.OutcomeOK, ""), "level=INFO msg=tool_call_completed tool_name=a__b call=c-1 trace_id=t1 success=true latency_ms=1.5"},
		{"the tool fails", calls.End, entry(audit.OutcomeToolError, ""), "level=ERROR msg=tool_call_failed tool_name=a__b call=c-1 trace_id=t1 error=tool_error latency_ms=1.5"},
		{"it is cancelled", calls.End, entry(audit.OutcomeCancelled, ""), "level=ERROR msg=tool_call_failed tool_name=a__b call=c-1 trace_id=t1 error=cancelled latency_ms=1.5"},
		{"it is refused", calls.Append, entry(audit.OutcomeDenied, "governance"), "level=WARN msg=tool_call_blocked tool_name=a__b call=c-1 trace_id=t1 reason=governance latency_ms=1.5"},
		{"it is no call", calls.Append, &audit.Entry{Time: time.Now(), CallID: "c-2", Method: "resources/read", Outcome: audit.OutcomeOK}, ""},
	}
	for _, tt := range tests {
		text.Reset()
		if err := tt.write(tt.entry); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := strings.TrimSpace(text.String()); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

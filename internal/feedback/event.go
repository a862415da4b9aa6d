package feedback

import (
	"encoding/json"
	"fmt"
	"time"
)

// Event is one execution of a tool. Its JSON is a contract. It holds no arguments, no
// result and no names of people: the audit log has those under the id.
type Event struct {
	ID           string    `json:"id"` // of the call, as in the audit log
	Time         time.Time `json:"time"`
	Tool         string    `json:"tool"` // exposed name
	Server       string    `json:"server"`
	Success      bool      `json:"success"`
	ErrorClass   string    `json:"error_class"` // kind of refusal, or the outcome; empty for a success
	DurationMS   float64   `json:"duration_ms"`
	ArgsHash     string    `json:"args_hash"` // SHA-256 of the canonical form of the arguments
	ResponseSize int64     `json:"response_size"`
	Tenant       string    `json:"tenant"`
	PersonaID    string    `json:"persona_id"`
	SessionID    string    `json:"session_id"` // a hash; empty without a session
	TraceID      string    `json:"trace_id"`

	format Format // of its JSON
}

// Format is how an event is written.
type Format string

// The formats.
const (
	// FormatEvent has every member of [Event].
	FormatEvent Format = "event"
	// FormatContext has the members of a feedback to a context service:
	// POST /context/feedback of the second source document.
	FormatContext Format = "context_feedback"
)

// contextFeedback is an event as [FormatContext] writes it.
type contextFeedback struct {
	ToolName     string  `json:"tool_name"`
	Success      bool    `json:"success"`
	DurationMS   float64 `json:"duration_ms"`
	ArgsHash     string  `json:"args_hash"`
	ResponseSize int64   `json:"response_size"`
	Tenant       string  `json:"tenant"`
	PersonaID    string  `json:"persona_id"`
}

// MarshalJSON implements [json.Marshaler].
func (e *Event) MarshalJSON() ([]byte, error) {
	type plain Event // without this method
	var v any = (*plain)(e)
	if e.format == FormatContext {
		v = contextFeedback{e.Tool, e.Success, e.DurationMS, "sha256:" + e.ArgsHash, e.ResponseSize, e.Tenant, e.PersonaID}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write an event: %w", err)
	}
	return text, nil
}

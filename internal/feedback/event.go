package feedback

import "time"

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
}

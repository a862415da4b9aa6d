package audit

import "time"

// Outcome is how a call ended.
type Outcome string

// Outcomes of a call.
const (
	OutcomeOK        Outcome = "ok"         // the backend answered
	OutcomeToolError Outcome = "tool_error" // the backend answered with isError
	OutcomeDenied    Outcome = "denied"     // refused by the gateway; Code says by what
	OutcomeError     Outcome = "error"      // a protocol error, or no answer
	OutcomeCancelled Outcome = "cancelled"  // ended by the caller
	OutcomeAbandoned Outcome = "abandoned"  // asked the caller a question that was never answered
)

// Entry is what is kept of one call. Its JSON names are a contract; every
// field is always written. Strings that are not UTF-8 are written with the
// replacement character, strings above 4096 bytes are cut and end in "…".
type Entry struct {
	Time            time.Time `json:"time"` // when the call ended; written in UTC with nanoseconds
	CallID          string    `json:"call_id"`
	Principal       Principal `json:"principal"`
	Session         string    `json:"session"` // a hash, never the id itself: the id is a credential
	Client          Client    `json:"client"`
	Transport       string    `json:"transport"` // stdio, sse or http
	ProtocolVersion string    `json:"protocol_version"`
	Method          string    `json:"method"`
	Kind            string    `json:"kind"` // tool, prompt, resource or template
	Name            string    `json:"name"` // as exposed to the client
	Server          string    `json:"server"`
	OriginalName    string    `json:"original_name"`
	CapabilityID    string    `json:"capability_id"`
	ArgsHash        string    `json:"args_hash"` // of the canonical form of the arguments
	Rounds          int       `json:"rounds"`    // questions to the caller that were answered
	Budgets         []Budget  `json:"budgets"`   // that were charged for it, in all rounds
	Outcome         Outcome   `json:"outcome"`
	Code            string    `json:"code"` // JSON-RPC error code or kind of refusal
	Reason          string    `json:"reason"`
	DurationUS      int64     `json:"duration_us"`    // microseconds in the gateway, upstream included
	UpstreamUS      int64     `json:"upstream_us"`    // microseconds of that spent upstream
	BytesIn         int64     `json:"bytes_in"`       // of the request
	BytesOut        int64     `json:"bytes_out"`      // of the answer
	Redacted        int64     `json:"redacted"`       // secrets that were taken out of the answer
	LeftOut         int64     `json:"bytes_left_out"` // of a result that was too large
	OutputInvalid   bool      `json:"output_invalid"` // the result did not fit its own output schema
	TraceID         string    `json:"trace_id"`       // W3C trace id in hexadecimal
}

// Principal is who called.
type Principal struct {
	Issuer  string `json:"issuer"`
	Tenant  string `json:"tenant"`
	Subject string `json:"subject"`
}

// Budget is what was taken from one budget for one round of a call.
type Budget struct {
	Name   string `json:"name"`
	Key    string `json:"key"` // whose
	Unit   string `json:"unit"`
	Amount int64  `json:"amount"`
	Used   int64  `json:"used"`  // after it
	Limit  int64  `json:"limit"` // -1 for none
}

// Client is the program that called, in its own words.
type Client struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

package audit

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

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
	OutcomeUnknown   Outcome = "unknown"    // the gateway ended before the call did
)

// Event is what a line tells.
type Event string

// The events.
const (
	EventBegin  Event = "begin"  // a call is about to reach its backend
	EventEnd    Event = "end"    // a call has ended; the only line of one that was refused
	EventChange Event = "change" // somebody changed the state of the gateway
	eventOpen   Event = "open"   // of the chain itself, see [Mark]
)

// Entry is what is kept of one call or change. Its JSON names are a contract;
// every field is always written, except in the line that begins a call, which
// has those that are known by then. Strings that are not UTF-8 are written with the
// replacement character, strings above 4096 bytes are cut and end in "…".
type Entry struct {
	Event           Event     `json:"event"` // empty is written as the end of a call
	Time            time.Time `json:"time"`  // of the event; written in UTC with nanoseconds
	CallID          string    `json:"call_id"`
	Principal       Principal `json:"principal"`
	Session         string    `json:"session"` // a hash, never the id itself: the id is a credential
	Client          Client    `json:"client"`
	Transport       string    `json:"transport"` // stdio, sse or http
	Era             string    `json:"era"`       // modern or legacy
	ProtocolVersion string    `json:"protocol_version"`
	Method          string    `json:"method"`
	Kind            string    `json:"kind"` // tool, prompt, resource or template
	Name            string    `json:"name"` // as exposed to the client
	Server          string    `json:"server"`
	OriginalName    string    `json:"original_name"`
	CapabilityID    string    `json:"capability_id"`
	ArgsHash        string    `json:"args_hash"` // of the canonical form of the arguments
	Fields          Fields    `json:"fields"`    // arguments that the configuration allows to be kept
	TraceID         string    `json:"trace_id"`  // W3C trace id in hexadecimal
	Steps           []Step    `json:"steps"`     // what the phases said, in their order
	Inputs          string    `json:"inputs"`    // sealed, what a policy saw; empty unless it is to be kept
	Rounds          int       `json:"rounds"`    // questions to the caller that were answered
	Budgets         []Budget  `json:"budgets"`   // that were charged for it, in all rounds
	Breaker         string    `json:"breaker"`   // state of the circuit breaker; empty where there is none
	Outcome         Outcome   `json:"outcome"`
	Code            string    `json:"code"` // JSON-RPC error code or kind of refusal
	Reason          string    `json:"reason"`
	DurationUS      int64     `json:"duration_us"`    // microseconds in the gateway, upstream included
	GatewayUS       int64     `json:"gateway_us"`     // microseconds of that not spent upstream
	UpstreamUS      int64     `json:"upstream_us"`    // microseconds of that spent upstream
	BytesIn         int64     `json:"bytes_in"`       // of the request
	BytesOut        int64     `json:"bytes_out"`      // of the answer
	Redacted        int64     `json:"redacted"`       // secrets that were taken out of the answer
	LeftOut         int64     `json:"bytes_left_out"` // of a result that was too large
	OutputInvalid   bool      `json:"output_invalid"` // the result did not fit its own output schema
}

// Principal is who called.
type Principal struct {
	Issuer  string   `json:"issuer"`
	Tenant  string   `json:"tenant"`
	Subject string   `json:"subject"`
	Persona string   `json:"persona"`
	Groups  []string `json:"groups"`
	Plan    string   `json:"plan"`
}

// Step is what one phase said of a call.
type Step struct {
	Phase    string `json:"phase"`
	Verdict  string `json:"verdict"`            // allow, abstain, pass, ask, deny or error
	Rule     string `json:"rule,omitempty"`     // that decided, in the phase's own words
	Revision string `json:"revision,omitempty"` // of the rules
	US       int64  `json:"us"`                 // microseconds since the call came
}

// Fields are arguments of a call by their JSON pointers. Its JSON is an object.
type Fields []Field

// Field is one argument.
type Field struct {
	Pointer string
	Value   string // a string as it is, anything else as JSON
}

// MarshalJSON implements [json.Marshaler].
func (f Fields) MarshalJSON() ([]byte, error) { return appendFields(nil, f), nil }

// UnmarshalJSON implements [json.Unmarshaler]; the fields are sorted.
func (f *Fields) UnmarshalJSON(b []byte) error {
	var values map[string]string
	if err := json.Unmarshal(b, &values); err != nil {
		return err
	}
	*f = nil
	for _, pointer := range slices.Sorted(maps.Keys(values)) {
		*f = append(*f, Field{pointer, values[pointer]})
	}
	return nil
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

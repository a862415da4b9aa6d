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
	OutcomeDenied    Outcome = "denied"     // refused by the gateway; Code says why
	OutcomeError     Outcome = "error"      // a JSON-RPC error, or no response
	OutcomeCancelled Outcome = "cancelled"  // by the caller
	OutcomeAbandoned Outcome = "abandoned"  // the caller did not answer a question
	OutcomeUnknown   Outcome = "unknown"    // the gateway ended before the call did
)

// Event is what a line is about.
type Event string

// The events.
const (
	EventBegin  Event = "begin"  // a call is about to reach its backend
	EventEnd    Event = "end"    // a call has ended; the only line of a refused call
	EventChange Event = "change" // somebody changed the state of the gateway
	eventOpen   Event = "open"   // about the chain itself, see [Mark]
)

// Entry is the record of one call or change. Its JSON names are a contract. Every field
// is always written, except in the line that begins a call, which has those that are
// known by then. Invalid UTF-8 is replaced, and strings above 4096 bytes are cut and
// end in "…".
type Entry struct {
	Event           Event     `json:"event"` // empty means the end of a call
	Time            time.Time `json:"time"`  // of the event; written in UTC with nanoseconds
	CallID          string    `json:"call_id"`
	Principal       Principal `json:"principal"`
	Session         string    `json:"session"` // a hash: the id itself is a credential
	Client          Client    `json:"client"`
	Transport       string    `json:"transport"` // stdio, sse or http
	Era             string    `json:"era"`       // modern or legacy
	ProtocolVersion string    `json:"protocol_version"`
	Method          string    `json:"method"`
	Kind            string    `json:"kind"`   // tool, prompt, resource or template
	Name            string    `json:"name"`   // as exposed to the client
	Via             string    `json:"via"`    // the tool of the find view by which it was called; empty without one
	Parent          string    `json:"parent"` // id of the call within which it was made; empty for a call of a client
	Agent           string    `json:"agent"`  // that called for the principal; empty for none
	Server          string    `json:"server"`
	OriginalName    string    `json:"original_name"`
	CapabilityID    string    `json:"capability_id"`
	ArgsHash        string    `json:"args_hash"` // of the canonical form of the arguments
	Fields          Fields    `json:"fields"`    // arguments that the configuration allows to record
	TraceID         string    `json:"trace_id"`  // W3C trace id in hexadecimal
	Steps           []Step    `json:"steps"`     // decisions of the phases, in order
	Inputs          string    `json:"inputs"`    // sealed inputs of policies; empty unless they are recorded
	Rounds          int       `json:"rounds"`    // questions that the caller answered
	Budgets         []Budget  `json:"budgets"`   // charged budgets, in all rounds
	Breaker         string    `json:"breaker"`   // state of the circuit breaker; empty without one
	Outcome         Outcome   `json:"outcome"`
	Code            string    `json:"code"` // JSON-RPC error code or kind of refusal
	Reason          string    `json:"reason"`
	DurationUS      int64     `json:"duration_us"`    // microseconds in the gateway, upstream included
	GatewayUS       int64     `json:"gateway_us"`     // microseconds of that not spent upstream
	UpstreamUS      int64     `json:"upstream_us"`    // microseconds of that spent upstream
	BytesIn         int64     `json:"bytes_in"`       // of the request
	BytesOut        int64     `json:"bytes_out"`      // of the answer
	Redacted        int64     `json:"redacted"`       // secrets removed from the result
	LeftOut         int64     `json:"bytes_left_out"` // bytes left out of a result that was too large
	OutputInvalid   bool      `json:"output_invalid"` // the result did not match its own output schema
	Shown           []string  `json:"shown"`          // names that a search of the find view returned
	Saved           int64     `json:"bytes_saved"`    // bytes that a result has less because it was shaped
}

// Principal is the caller.
type Principal struct {
	Issuer  string   `json:"issuer"`
	Tenant  string   `json:"tenant"`
	Subject string   `json:"subject"`
	Persona string   `json:"persona"`
	Groups  []string `json:"groups"`
	Plan    string   `json:"plan"`
}

// Step is one phase's decision on a call.
type Step struct {
	Phase    string `json:"phase"`
	Verdict  string `json:"verdict"`            // allow, abstain, pass, ask, deny or error
	Rule     string `json:"rule,omitempty"`     // that decided, as the phase names it
	Revision string `json:"revision,omitempty"` // of the rules
	US       int64  `json:"us"`                 // microseconds since the call arrived
}

// Fields are arguments of a call by JSON pointer. Their JSON is an object.
type Fields []Field

// Field is one argument.
type Field struct {
	Pointer string
	Value   string // a string unquoted, anything else as JSON
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

// Budget is the charge to one budget for one round of a call.
type Budget struct {
	Name   string `json:"name"`
	Key    string `json:"key"` // the owner
	Unit   string `json:"unit"`
	Amount int64  `json:"amount"`
	Used   int64  `json:"used"`  // after the charge
	Limit  int64  `json:"limit"` // -1 for none
}

// Client is the program that called, as it describes itself.
type Client struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

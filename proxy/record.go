package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/redact"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// settleTimeout bounds the work for a call after it has ended.
const settleTimeout = 5 * time.Second

// record is the open audit entry of one call. It belongs to the goroutine of the call,
// and to roundTrips between the rounds of a call.
type record struct {
	g             *Gateway
	x             *Exchange
	entry         audit.Entry
	began         time.Time
	route         *Route // nil while there is none
	recording     *Recording
	undecidedView gate.Decision // why the view decision could not be made; else zero

	steps [usualSteps]audit.Step // memory of entry.Steps; more lie elsewhere
	begun bool                   // the line of the beginning is written
	span  Span                   // nil for a call that is not traced; set only by trace
}

// open begins a record that is zero.
func (rec *record) open(g *Gateway, x *Exchange, snap *Snapshot, kind mcp.Kind, name string) {
	rec.g, rec.x, rec.began, rec.recording = g, x, time.Now(), &snap.recording
	e := &rec.entry
	e.CallID = g.callID()
	e.Principal = audit.Principal{
		Issuer: x.Identity.Issuer, Tenant: x.Identity.Tenant, Subject: x.Identity.Subject,
		Persona: x.Identity.Persona, Groups: x.Identity.Groups, Plan: x.Identity.Plan,
	}
	if x.Session != nil {
		e.Session = x.Session.auditID
	}
	e.Client.Name, _ = mcp.LookupString(x.ClientInfo, "name")
	e.Client.Version, _ = mcp.LookupString(x.ClientInfo, "version")
	e.Transport, e.ProtocolVersion = x.Transport, string(x.Version)
	e.Era = x.Era.String()
	e.Method, e.Kind, e.Name = x.Message.Method, kind.String(), name
	e.BytesIn = int64(len(x.Message.Raw))
	if e.Agent = x.Identity.Agent(); x.in != nil {
		e.Parent = x.in.call
	}
	if trace, ok := mcp.Unquote(x.Message.Meta("traceparent")); ok == nil {
		e.TraceID = traceID(trace)
	}
}

// callID returns the id of a new call. It is unique among all gateways and cheap.
func (g *Gateway) callID() string {
	return g.instance + "-" + strconv.FormatUint(g.calls.Add(1), 36)
}

// traceID returns the trace id of a W3C traceparent, empty when it is invalid.
func traceID(parent string) string {
	if len(parent) < 55 || parent[2] != '-' || parent[35] != '-' {
		return ""
	}
	id := parent[3:35]
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	return id
}

func (rec *record) routed(r *Route) {
	rec.route = r
	rec.entry.Server, rec.entry.OriginalName, rec.entry.CapabilityID = r.Server, r.Original, r.CapabilityID
}

// cost is the cost of one call in cost units.
func (r *Route) cost() int64 {
	if r.shape != nil && r.shape.Cost > 0 {
		return r.shape.Cost
	}
	return 1
}

// recordRefusal records why the call is refused and returns the classified reason.
func (rec *record) recordRefusal(err error) error {
	e := &rec.entry
	switch refusal := classify(err).(type) { //nolint:errorlint // classify returns the very error
	case *refusal.Error:
		own := *refusal // refusals may be shared between calls
		own.Decision = e.CallID
		e.Outcome, e.Code, e.Reason = outcomeOf(own.Origin), own.Kind, own.Text
		rec.step(own.Phase, verdictDeny, own.Kind, "")
		if own.Phase == "breaker" {
			e.Breaker = guard.Open.String()
		}
		if own.Kind == "internal" {
			e.Outcome = audit.OutcomeError
		}
		return &own
	case *mcp.Error:
		e.Outcome, e.Code, e.Reason = outcomeOf(refusal.Origin), strconv.Itoa(refusal.Code), refusal.Message
		if rec.undecidedView.Err != nil { // the caller must not learn it
			e.Code, e.Reason = rec.undecidedView.Reason, rec.undecidedView.Err.Error()
		}
		if refusal.Code == mcp.CodeInternal {
			e.Outcome = audit.OutcomeError
		}
		return refusal
	default:
		e.Outcome, e.Reason = audit.OutcomeCancelled, err.Error()
		return refusal
	}
}

// finish completes the entry with the response and writes it.
func (rec *record) finish(answer *response) {
	e := &rec.entry
	e.Time = time.Now()
	e.DurationUS = e.Time.Sub(rec.began).Microseconds()
	e.GatewayUS = max(0, e.DurationUS-e.UpstreamUS)
	e.BytesOut = int64(len(answer.result))
	if e.Outcome == "" {
		switch {
		case answer.fault != nil:
			e.Outcome, e.Code, e.Reason = audit.OutcomeError, strconv.Itoa(answer.fault.Code), answer.fault.Message
		case !answer.succeeded && isError(answer.result):
			e.Outcome = audit.OutcomeToolError
		default:
			e.Outcome = audit.OutcomeOK
		}
	}
	if e.ArgsHash == "" {
		rec.hashArguments()
	}
	rec.scrub()
	rec.g.opts.Metrics.call(e)
	if rec.span != nil {
		rec.span.End(e)
	}
	keep := rec.g.opts.Auditor.Append
	if rec.begun {
		keep = rec.g.opts.Auditor.End
	}
	if err := keep(e); err != nil {
		rec.g.log.Error("audit entry not written", "call", e.CallID, "err", err)
	}
}

// begin writes the line that the call begins, before its backend hears of it. A call of
// several rounds begins only once.
func (rec *record) begin() error {
	if rec.begun {
		return nil
	}
	if rec.entry.ArgsHash == "" {
		rec.hashArguments()
	}
	rec.scrub()
	rec.entry.Time = time.Now()
	if err := rec.g.opts.Auditor.Begin(&rec.entry); err != nil {
		return refusal.AuditDown(err)
	}
	rec.begun = true
	return nil
}

// hashArguments sets the hash of the caller's arguments.
func (rec *record) hashArguments() { rec.entry.ArgsHash = rec.x.hashArguments() }

// hashArguments returns the hash of the arguments of a request.
func (x *Exchange) hashArguments() string {
	var sum [sha256.Size]byte
	switch x.Message.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		sum = mcp.Hash(x.Message.Param("arguments"))
	case mcp.MethodComplete:
		sum = mcp.Hash(x.Message.Param("argument"))
	case mcp.MethodTaskGet, mcp.MethodTaskCancel, mcp.MethodTaskUpdate, mcp.MethodTaskResult:
		sum = mcp.Hash(x.Message.Param("inputResponses"))
	default:
		sum = mcp.Hash(x.Message.Param("uri"))
	}
	return hexOf(sum)
}

// hexOf is a hash in hexadecimal.
func hexOf(sum [sha256.Size]byte) string {
	var text [2 * sha256.Size]byte
	return string(hex.AppendEncode(text[:0], sum[:]))
}

func isError(result []byte) bool {
	return string(mcp.Lookup(result, "isError")) == "true"
}

// maxSteps bounds the recorded steps of a call; later ones are dropped. One more place is kept
// for what is said of the cache.
const maxSteps = 16

// usualSteps is how many steps most calls have.
const usualSteps = 7

// Verdicts of the steps outside the gate.
const (
	verdictPass = "pass"
	verdictDeny = "deny"
	verdictAsk  = "ask"
	verdictFail = "error"
)

// step records what a phase decides. Every call uses it, so the first steps live inside
// the record.
func (rec *record) step(phase, verdict, rule, rev string) {
	if len(rec.entry.Steps) < maxSteps {
		rec.add(phase, verdict, rule, rev)
	}
}

// cache records whether a result was reused, however many steps there are. It is called
// once for a call.
func (rec *record) cache(verdict, why string) { rec.add("cache", verdict, why, "") }

func (rec *record) add(phase, verdict, rule, rev string) {
	if len(rec.entry.Steps) == 0 {
		rec.entry.Steps = rec.steps[:0]
	}
	rec.entry.Steps = append(rec.entry.Steps, audit.Step{
		Phase: phase, Verdict: verdict, Rule: rule, Revision: rev, US: time.Since(rec.began).Microseconds(),
	})
}

// passed records that a phase lets the call continue.
func (rec *record) passed(phase string) { rec.step(phase, verdictPass, "", "") }

// Decided implements [gate.Listener].
func (rec *record) Decided(phase string, d gate.Decision) {
	verdict := d.Effect.String()
	if d.Err != nil {
		verdict = verdictFail
	}
	rec.step(phase, verdict, d.Reason, d.Revision)
}

// intercepted records what an interceptor says.
func (rec *record) intercepted(e intercept.Event) {
	phase := "interceptor/" + e.Interceptor
	if e.Phase == intercept.After {
		phase += "/after"
	}
	rec.step(phase, e.Outcome(), e.Reason, "")
}

// viewed records the view decision.
func (rec *record) viewed(d gate.Decision) {
	phase := "view"
	if d.Effect != gate.Allow {
		phase = "view/" + d.Phase
	}
	if rec.undecidedView = (gate.Decision{}); d.Undecidable() {
		rec.undecidedView = d
	}
	rec.Decided(phase, d)
}

const (
	// scrubTimeout bounds the search for secrets in one entry.
	scrubTimeout = 50 * time.Millisecond
	// maxKept bounds a recorded argument, in bytes.
	maxKept = 1 << 10
	// notSearched replaces a text that was not searched in time.
	notSearched = "[not looked through for secrets]"
	// labelInputs is the seal label of recorded decision inputs.
	labelInputs seal.Label = "audit inputs"
)

// Recording configures what is recorded of calls besides the hash of their arguments.
type Recording struct {
	// Redact removes secrets from texts of clients and servers; nil removes nothing.
	Redact redact.Filter
	// Fields returns JSON pointers to the arguments that are recorded, by the exposed
	// name of the tool; nil records none.
	Fields func(exposed string) []string
	// Inputs records, sealed, the arguments that a policy may have read.
	Inputs bool
}

// namesCleanFor is how long names without secrets count as clean. New secrets come into
// use while the gateway runs.
const namesCleanFor = 10 * time.Second

// scrub removes secrets from the texts of clients and servers in the entry. A client
// may invent any name, and a server may list any.
func (rec *record) scrub() {
	r := rec.recording.Redact
	if r == nil {
		return
	}
	e, until := &rec.entry, time.Now().Add(scrubTimeout)
	clean := func(s *string) (changed bool) {
		if *s == "" {
			return false
		}
		text, n, err := r.Text(*s, until)
		switch {
		case err != nil:
			*s = notSearched
		case n > 0:
			*s = text
		default:
			return false
		}
		return true
	}
	if known := rec.route; known == nil || e.Name != known.Exposed || rec.began.UnixNano() >= known.cleanUntil.Load() {
		name, original := clean(&e.Name), clean(&e.OriginalName)
		if known != nil && e.Name == known.Exposed && !name && !original {
			known.cleanUntil.Store(rec.began.Add(namesCleanFor).UnixNano())
		}
	}
	clean(&e.Reason)
	clean(&e.Client.Name)
	clean(&e.Client.Version)
	for i := range e.Steps {
		clean(&e.Steps[i].Rule)
	}
	for i := range e.Shown {
		clean(&e.Shown[i])
	}
}

// noteFields records the configured arguments of a tool.
func (rec *record) noteFields(tool string, args []byte) {
	with := rec.recording
	if with.Fields == nil {
		return
	}
	for _, pointer := range with.Fields(tool) {
		if value, ok := keptArgument(args, pointer, with.Redact); ok {
			rec.entry.Fields = append(rec.entry.Fields, audit.Field{Pointer: pointer, Value: value})
		}
	}
}

// note records the configured arguments, and those that a policy may have read.
func (rec *record) note(r *Route) {
	with := rec.recording
	if r.Kind != mcp.Tool || with.Fields == nil && !with.Inputs {
		return
	}
	args := r.argumentsOf(rec.x)
	rec.noteFields(r.Exposed, args)
	if with.Inputs && args != nil {
		sealed, err := rec.g.opts.Keys.Seal(labelInputs, rec.entry.CallID, args)
		if err != nil {
			rec.g.log.Error("the inputs of a decision are not kept", "call", rec.entry.CallID, "err", err)
			return
		}
		rec.entry.Inputs = sealed
	}
}

// noteAgain records other arguments in place of those before.
func (rec *record) noteAgain(r *Route) {
	rec.entry.Fields, rec.entry.Inputs, rec.entry.ArgsHash = nil, "", ""
	rec.note(r)
}

// OpenInputs returns the arguments of a call that were recorded sealed.
func OpenInputs(k *seal.Keyring, call, sealed string) ([]byte, error) {
	return k.Open(labelInputs, call, sealed)
}

// keptArgument returns the argument at a pointer (RFC 6901) through objects: a string
// unquoted, anything else as JSON, without secrets.
func keptArgument(args []byte, pointer string, r redact.Filter) (string, bool) {
	value := args
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		value = mcp.Lookup(value, mcp.PointerName(part))
		if value == nil {
			return "", false
		}
	}
	text, err := mcp.Unquote(value)
	if err != nil {
		text = string(value)
	}
	if r != nil { // before the cut, which could hide a part of a secret
		if text, _, err = r.Text(text, time.Now().Add(scrubTimeout)); err != nil {
			return notSearched, true
		}
	}
	if len(text) > maxKept {
		text = strings.ToValidUTF8(text[:maxKept], "") + "…"
	}
	return text, true
}

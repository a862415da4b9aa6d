package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// settleTime bounds what is done for a call after it has ended.
const settleTime = 5 * time.Second

// record is the audit entry of one call while it is open. It belongs to the
// goroutine of the call; between the rounds of a call the rounds own it.
type record struct {
	g         *Gateway
	x         *Exchange
	entry     audit.Entry
	began     time.Time
	route     *Route // nil while there is none
	recording *Recording
	unseen    gate.Decision // why it could not be decided whether the caller may view it; zero where it was

	steps [maxSteps]audit.Step // that entry.Steps is a part of
	begun bool                 // the line of its beginning is written
	span  Span                 // nil for a call that is not traced; set by trace alone
}

func (g *Gateway) newRecord(x *Exchange, snap *Snapshot, kind mcp.Capability, name string) *record {
	rec := &record{g: g, x: x, began: time.Now(), recording: &snap.recording}
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
	if trace, ok := mcp.Unquote(x.Message.Meta("traceparent")); ok == nil {
		e.TraceID = traceID(trace)
	}
	return rec
}

// callID returns the id of a new call: unique among all gateways, cheap.
func (g *Gateway) callID() string {
	return g.instance + "-" + strconv.FormatUint(g.calls.Add(1), 36)
}

// traceID returns the trace id of a W3C traceparent, empty when it is none.
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

// cost is that of one call, in cost units.
func (r *Route) cost() int64 {
	if r.shape != nil && r.shape.Cost > 0 {
		return r.shape.Cost
	}
	return 1
}

// refused notes why the call is refused and returns the reason, classed.
func (rec *record) refused(err error) error {
	e := &rec.entry
	switch refusal := classify(err).(type) { //nolint:errorlint // classify returns the very error
	case *refusal.Error:
		own := *refusal // which several calls may share
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
		if rec.unseen.Err != nil { // which is not for the caller to know
			e.Code, e.Reason = rec.unseen.Reason, rec.unseen.Err.Error()
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

// finish closes the entry with the answer to its call and writes it.
func (rec *record) finish(answer *reply) {
	e := &rec.entry
	e.Time = time.Now()
	e.DurationUS = e.Time.Sub(rec.began).Microseconds()
	e.GatewayUS = max(0, e.DurationUS-e.UpstreamUS)
	e.BytesOut = int64(len(answer.result))
	if e.Outcome == "" {
		switch {
		case answer.fault != nil:
			e.Outcome, e.Code, e.Reason = audit.OutcomeError, strconv.Itoa(answer.fault.Code), answer.fault.Message
		case isError(answer.result):
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
		rec.g.log.Error("audit entry not kept", "call", e.CallID, "err", err)
	}
}

// begin writes the line that the call begins, which has to be before its
// backend hears of it. A call of several rounds begins once.
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

// hashArguments notes the hash of what the caller gave.
func (rec *record) hashArguments() {
	var sum [sha256.Size]byte
	switch rec.x.Message.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		sum = mcp.Hash(rec.x.Message.Param("arguments"))
	case mcp.MethodComplete:
		sum = mcp.Hash(rec.x.Message.Param("argument"))
	case mcp.MethodTaskGet, mcp.MethodTaskCancel, mcp.MethodTaskUpdate, mcp.MethodTaskResult:
		sum = mcp.Hash(rec.x.Message.Param("inputResponses"))
	default:
		sum = mcp.Hash(rec.x.Message.Param("uri"))
	}
	rec.entry.ArgsHash = hex.EncodeToString(sum[:])
}

func isError(result []byte) bool {
	return string(mcp.Lookup(result, "isError")) == "true"
}

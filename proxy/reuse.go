package proxy

import (
	"bytes"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/reuse"
)

// This file answers calls with the results of equal calls, where the operator lets it:
// after the gate and the charge, and only for the principal who got the result.

// ReuseKey is the member of _meta that says that a result is reused.
const ReuseKey = "dev.toolgate/cache"

// Reusable reports whether the results of a tool may be reused, because it is read-only,
// and so idempotent. The state changes whenever results of before may not be reused any
// more. listed is the definition of the server.
type Reusable func(r *gate.Request, listed []byte) (state string, ok bool)

// reusing returns the servers with tools whose results may be reused.
func reusing(mounts []Mount) map[string]bool {
	out := make(map[string]bool)
	for i := range mounts {
		for name := range mounts[i].Tools {
			if mounts[i].Tools[name].Reuse > 0 {
				out[mounts[i].Backend.Name()] = true
			}
		}
	}
	return out
}

// reuse answers the call with the result of an equal one, if there is a fresh one.
func (c *call) reuse() error {
	key, ok := c.reuseKey()
	if !ok {
		return nil
	}
	now := time.Now()
	found, ok := c.g.reused.Find(key, now)
	if !ok {
		c.key = &key
		return nil
	}
	c.sent = time.Time{} // nothing is sent
	answer, err := c.reusedAnswer(found, now)
	if err != nil {
		return err
	}
	respond(c, answer)
	return nil
}

// reusedAnswer settles the charge of a call with a reused result and returns it.
func (c *call) reusedAnswer(found reuse.Found, now time.Time) (response, error) {
	age := now.Sub(found.Made).Milliseconds()
	c.rec.cache("hit", strconv.FormatInt(age, 10)+" ms old")
	if err := c.settleRound(&found.Answer, nil); err != nil {
		return response{}, err
	}
	answer, err := c.translateResponse(found.Answer)
	if err != nil {
		return response{}, err
	}
	note := strconv.AppendInt([]byte(`{"age_ms":`), age, 10)
	note = strconv.AppendInt(append(note, `,"ttl_ms":`...), c.route.shape.Reuse.Milliseconds(), 10)
	meta := mcp.SetMember(mcp.Lookup(answer.result, "_meta"), ReuseKey, append(note, '}'))
	answer.result = mcp.SetMember(answer.result, "_meta", meta)
	return c.warned(answer), nil
}

// reuseKey returns the key of the result of a call. ok is false for a call whose result
// is not reused: of a tool that is not known to be read-only, one that continues, that
// was approved, that asks for a task, or that sends headers of its own.
func (c *call) reuseKey() (_ reuse.Key, ok bool) {
	r, x, request := c.route, c.x, c.request
	if r.shape == nil || r.shape.Reuse <= 0 || request.Method != mcp.MethodToolsCall {
		return reuse.Key{}, false
	}
	if len(c.rec.entry.Steps) >= maxSteps { // the last decisions may not be among them
		c.rec.cache("skip", "the call has more decisions than are recorded")
		return reuse.Key{}, false
	}
	if c.retry != nil || len(c.demands) > 0 || len(c.approved) > 0 || len(request.Headers) > 0 || x.Message.Param("task") != nil {
		return reuse.Key{}, false
	}
	state, ok := c.snap.readOnly(r, x)
	if !ok {
		c.rec.cache("skip", "the tool is not known to be read-only")
		return reuse.Key{}, false
	}
	k := reuse.NewKey()
	k.AddNumber(c.snap.generation)
	k.AddNumber(c.g.reused.Changes(r.Server))
	k.AddString(state)
	for i := range c.rec.entry.Steps { // who decided, by which rules
		step := &c.rec.entry.Steps[i]
		for _, part := range [...]string{step.Phase, step.Verdict, step.Rule, step.Revision} {
			k.AddString(part)
		}
	}
	// The credential of the request to the server is selected by these.
	for _, part := range [...]string{request.Principal, request.Rights, request.Token, x.Scope.Capsule} {
		k.AddString(part)
	}
	if r.to.mount.PerSession {
		k.AddString(request.Session)
	}
	k.AddString(r.Server)
	k.Add(r.item)
	k.AddNumber(uint64(request.Era))
	k.Add(request.Capabilities)
	params := mcp.Hash(withoutTrace(request.Params)) // the name, the canonical arguments and _meta
	k.Add(params[:])
	return k.Key(), true
}

// withoutTrace removes what differs between equal calls: the trace that they belong to.
func withoutTrace(params []byte) []byte {
	meta := mcp.Lookup(params, "_meta")
	if !mcp.IsObject(meta) {
		return params
	}
	for _, name := range [...]string{metaTraceparent, metaTracestate, "baggage"} {
		meta = mcp.RemoveMember(meta, name)
	}
	for range mcp.Members(meta) {
		return mcp.SetMember(params, "_meta", meta)
	}
	return mcp.RemoveMember(params, "_meta") // as a call without a trace
}

// readOnly asks whether results of a tool may be reused.
func (s *Snapshot) readOnly(r *Route, x *Exchange) (state string, ok bool) {
	if s.reusable == nil {
		return "", false
	}
	question := r.question(gate.Call, x.Identity, x.Scope)
	return s.reusable(&question, r.item)
}

// follow answers a call with the result of an equal one that is under way. The wait may
// be long, so the gate decides again. Where there is nothing to reuse, the call is sent.
func (c *call) follow(inFlight *reuse.InFlight) (response, error) {
	found, ok, err := inFlight.Wait(c.ctx)
	if err == nil {
		err = c.decideIfOld()
	}
	if err == nil && !ok {
		err = c.checkBreaker()
	}
	if err != nil {
		return response{}, err
	}
	if ok {
		c.sent = time.Time{} // nothing is sent
		return c.reusedAnswer(found, time.Now())
	}
	c.sent = time.Now()
	return c.deliver()
}

// noteChange notes that the server may answer otherwise from now on, if the call may
// change something. The returned function notes it again, once the call has ended.
func (c *call) noteChange() (again func()) {
	if c.key != nil || c.request.Method != mcp.MethodToolsCall && c.task == nil || !c.snap.reusing[c.route.Server] {
		return func() {}
	}
	if _, readOnly := c.snap.readOnly(c.route, c.x); readOnly {
		return func() {}
	}
	server := c.route.Server
	c.g.reused.Changed(server)
	return func() { c.g.reused.Changed(server) }
}

// CredentialChanged takes the news that a server is called with another credential from
// now on: what it answered before is not reused.
func (g *Gateway) CredentialChanged(server string) { g.reused.Changed(server) }

// shareable is the result of a call for others who make the same call; nil for none.
func shareable(c *call) *mcp.Answer {
	if c.accepted == nil || c.asked || !wholeAnswer(*c.accepted) {
		return nil
	}
	return &mcp.Answer{Result: bytes.Clone(c.accepted.Result), Era: c.accepted.Era, Conn: c.accepted.Conn}
}

// wholeAnswer reports whether an answer is a complete result without an error.
func wholeAnswer(got mcp.Answer) bool {
	if got.Fault != nil || got.Result == nil || isError(got.Result) || !mcp.LookupSpan(got.Result, "task").Absent() {
		return false
	}
	kind, typed := mcp.LookupString(got.Result, "resultType")
	return !typed || kind == mcp.ResultComplete
}

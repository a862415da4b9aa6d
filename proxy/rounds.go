package proxy

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy/inflight"
	"github.com/toolgate/toolgate/proxy/names"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/replica"
)

// roundTrips are the calls whose server has asked the client something and which wait
// for the next request (2026-07-28 basic/patterns/mrtr). The client carries their state
// meanwhile. The state is sealed for its principal, bound to the same method,
// capability and arguments, and can be used once. A call that is not waiting cannot be
// continued.
type roundTrips struct {
	g *Gateway

	mu          sync.Mutex
	open        map[string]*openCall // by call id
	of          map[string]int       // their number, by principal
	suspendedOf map[string]int       // number of suspended calls, by principal
	suspendedAt map[string]int       // number of suspended calls, by server

	// displaced are suspended calls that had to make room, until their states expire. A
	// client that continues one of them is told so.
	displaced map[string]time.Time
}

func newRoundTrips(g *Gateway) roundTrips {
	return roundTrips{
		g: g, open: make(map[string]*openCall),
		of: make(map[string]int), suspendedOf: make(map[string]int), suspendedAt: make(map[string]int),
		displaced: make(map[string]time.Time),
	}
}

// openCall is one call between two of its rounds.
type openCall struct {
	principal, server string

	round     int // the round that may come next
	rec       *record
	running   *inflight.Call
	loopEnd   func()     // see call.loopEnd
	suspended *suspended // of a call that its server still works on; else nil
	expires   time.Time
}

// retry is a later round of a call.
type retry struct {
	state     roundState
	responses []byte // InputResponses, raw; nil when there are none
	admitted  bool
	suspended *suspended // nil where the backend is called again
}

// charged reports whether the call was charged in an earlier round.
func (r *retry) charged() bool {
	return r != nil && r.state.resume != resumeApproval && !r.state.signsIn()
}

// intercepted reports whether the call passed the interceptors in an earlier round. An
// approval that was asked for then is looked up again by the arguments.
func (r *retry) intercepted() bool {
	return r.state.resume != resumeApproval && r.state.resume != resumeUnlisted
}

// ended ends a call that cannot continue, and returns the reason.
func (r *retry) ended(why error) error {
	if r != nil && r.suspended != nil {
		r.suspended.cancel(errSuspendedEnded)
	}
	return why
}

var (
	errRound        = mcp.Errorf(mcp.CodeInvalidParams, "Invalid requestState")
	errRoundExpired = mcp.Errorf(mcp.CodeInvalidParams, "Invalid requestState: it has expired")
	errResponses    = mcp.Errorf(mcp.CodeInvalidParams, `Invalid params: "inputResponses" must be an object of objects`)
)

// roundState is the state that the client carries between two rounds.
type roundState struct {
	call               string
	round              int
	expires            int64 // Unix milliseconds
	server, kind, name string
	args               string // hash of the arguments as the client sent them
	final              string // of those that interceptors have left; empty where that is the same
	method             string
	resume             string // a resume constant, or empty
	approved           approvals
	inner              []byte // the server's own state or the gateway's, raw; nil when there is none
	sampled            []byte // InputResponses of the gateway itself; nil when there are none
}

// How a call continues. The values are part of sealed states.
const (
	resumeSuspended = "parked" // the server still works on it
	resumeRepeat    = "again"  // the call is repeated: what it wanted was done elsewhere
	// resumeApproval is for a call that was not sent yet: its caller was asked for
	// approval.
	resumeApproval = "approval"
	// resumeSignIn is for a call that was not sent yet: its caller was sent to sign in.
	// resumeUnlisted is the same for a tool that was not listed yet, which is known by
	// its exposed name.
	resumeSignIn, resumeUnlisted = "sign_in", "unlisted"
)

// signsIn reports whether the caller was sent to sign in.
func (s *roundState) signsIn() bool { return s.resume == resumeSignIn || s.resume == resumeUnlisted }

func (s *roundState) encode() []byte {
	out := append([]byte(`{"call":`), mcp.Quote(s.call)...)
	out = fmt.Appendf(out, `,"round":%d,"expires":%d`, s.round, s.expires)
	for _, m := range [...][2]string{
		{"server", s.server}, {"kind", s.kind}, {"original", s.name}, {"args", s.args}, {"final", s.final}, {"method", s.method}, {"way", s.resume},
	} {
		out = append(append(mcp.AppendQuote(append(out, ','), m[0]), ':'), mcp.Quote(m[1])...)
	}
	out = s.approved.encode(out)
	if s.inner != nil {
		out = append(append(out, `,"state":`...), s.inner...)
	}
	if s.sampled != nil {
		out = append(append(out, `,"sampled":`...), s.sampled...)
	}
	return append(out, '}')
}

func decodeRoundState(raw []byte) roundState {
	field := func(name string) string { s, _ := mcp.LookupString(raw, name); return s }
	number := func(name string) int64 { n, _ := strconv.ParseInt(string(mcp.Lookup(raw, name)), 10, 64); return n }
	return roundState{
		call: field("call"), round: int(number("round")), expires: number("expires"),
		server: field("server"), kind: field("kind"), name: field("original"), args: field("args"), final: field("final"),
		method: field("method"), resume: field("way"), approved: decodeApprovals(raw), inner: mcp.Lookup(raw, "state"),
		sampled: mcp.Lookup(raw, "sampled"),
	}
}

// find returns the retry of a request, nil when it is none. The state of a retry must
// be genuine, belong to this caller and this call, and not have expired. find puts the
// server's own state back into the request.
func (r *roundTrips) find(c *call) (*retry, error) {
	x, route, request := c.x, c.route, c.request
	raw := x.Message.Param("requestState")
	if raw == nil {
		if x.Era == mcp.Modern && !responsesWellFormed(x.Message.Param("inputResponses")) {
			return nil, errResponses // the server need not be asked about it
		}
		return nil, nil
	}
	text, err := mcp.Unquote(raw)
	if err != nil || x.Era != mcp.Modern {
		return nil, errRound
	}
	opened, err := r.g.opts.Keys.Open(seal.Round, route.to.connectionKey(x.Identity), sealedPart(text))
	if err != nil {
		return nil, errRound
	}
	state := decodeRoundState(opened)
	named := route.Original
	if state.resume == resumeUnlisted {
		named = route.Exposed
	}
	if state.server != route.Server || state.kind != route.Kind.String() || state.name != named ||
		state.args != c.given.hashArguments() || state.method != request.Method {
		return nil, errRound
	}
	if time.Now().UnixMilli() >= state.expires {
		return nil, errRoundExpired
	}
	again := &retry{state: state, responses: x.Message.Param("inputResponses")}
	if !responsesWellFormed(again.responses) {
		return nil, errResponses
	}
	again.restore(request)
	return again, nil
}

// sealedPart returns a value that a client carries without the gateway that it names.
func sealedPart(value string) string {
	_, sealed := replica.Cut(value)
	return sealed
}

// restore puts the server's own state in place of the gateway's in a request, and takes
// out answers that are the gateway's alone. The gateway's own answers to the server come in
// place of what the client says to these questions.
func (r *retry) restore(request *mcp.Call) {
	request.Params = mcp.RemoveMember(request.Params, "requestState")
	state := &r.state
	switch {
	case state.resume == resumeRepeat, state.resume == resumeApproval, state.signsIn():
		request.Params = mcp.RemoveMember(request.Params, "inputResponses")
	case state.inner != nil:
		request.Params = mcp.SetMember(request.Params, "requestState", state.inner)
	}
	if state.sampled == nil || state.resume != "" {
		return
	}
	responses := r.responses
	for m := range mcp.Members(state.sampled) {
		if key, err := mcp.Unquote(m.Key(state.sampled)); err == nil {
			responses = mcp.SetMember(responses, key, m.Value.Of(state.sampled))
		}
	}
	request.Params = mcp.SetMember(request.Params, "inputResponses", responses)
}

// use uses up the state of a retry.
func (r *roundTrips) use(c *call) (err error) {
	again := c.retry
	if again == nil || again.admitted {
		return nil
	}
	again.suspended, err = r.begin(c, &again.state)
	again.admitted = err == nil
	return err
}

// begin uses up a state and returns the suspended call that the round belongs to.
func (r *roundTrips) begin(c *call, state *roundState) (*suspended, error) {
	rec := c.rec
	own := strings.HasPrefix(state.call, r.g.instance+"-")
	use := r.g.opts.UseRound
	if use != nil {
		switch first, err := use(c.ctx, state.call, state.round, time.UnixMilli(state.expires)); {
		case err != nil:
			return nil, refusal.RoundsDown(err)
		case !first:
			return nil, errRound
		}
	} else if !own {
		return nil, errRound // another gateway may have used it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	open := r.open[state.call]
	switch {
	case open == nil && state.resume == resumeSuspended && (!own || !r.displaced[state.call].IsZero()):
		return nil, refusal.Lost
	case use == nil && (open == nil || open.round != state.round):
		return nil, errRound // used before
	case open != nil && open.round > state.round: // what the store says is of another call
		return nil, errRound
	}
	rec.entry.CallID, rec.entry.Rounds = state.call, state.round
	if open == nil {
		return nil, nil // begun at another gateway, continued here
	}
	// Rounds since open.round were at another gateway.
	r.remove(state.call, open)
	rec.began, rec.entry.BytesIn = open.rec.began, rec.entry.BytesIn+open.rec.entry.BytesIn
	rec.entry.Budgets, rec.begun, c.loopEnd = open.rec.entry.Budgets, open.rec.begun, open.loopEnd
	return open.suspended, nil
}

// remove takes a call out; mu is held.
func (r *roundTrips) remove(id string, open *openCall) {
	delete(r.open, id)
	less := func(count map[string]int, key string) {
		if count[key]--; count[key] <= 0 {
			delete(count, key)
		}
	}
	less(r.of, open.principal)
	if open.suspended != nil {
		less(r.suspendedOf, open.principal)
		less(r.suspendedAt, open.server)
	}
}

// responsesWellFormed reports whether input responses are an object of objects, or
// absent.
func responsesWellFormed(raw []byte) bool {
	if raw == nil {
		return true
	}
	for m := range mcp.Members(raw) {
		if !mcp.IsObject(m.Value.Of(raw)) {
			return false
		}
	}
	return mcp.IsObject(raw)
}

// seal replaces the server's state in an input request by a sealed one, and keeps the
// call open for its next round.
func (r *roundTrips) seal(c *call, result []byte, way string) ([]byte, error) {
	x, route, rec := c.x, c.route, c.rec
	if way != resumeSuspended && rec.entry.Rounds >= maxRounds {
		return nil, tooManyRounds(route)
	}
	named := route.Original
	if way == resumeSignIn && named == "" {
		way, named = resumeUnlisted, route.Exposed
	}
	own := way == resumeApproval || way == resumeSignIn || way == resumeUnlisted // the gateway asks the questions
	if way != resumeSuspended && !own {                                          // questions of suspended calls were checked when they came
		if err := r.allowed(x, route, result); err != nil {
			return nil, err
		}
	}
	state := roundState{
		call: rec.entry.CallID, round: rec.entry.Rounds + 1, expires: time.Now().Add(r.g.opts.Limits.RoundTime).UnixMilli(),
		server: route.Server, kind: route.Kind.String(), name: named, args: c.given.hashArguments(), final: c.intercepted,
		method: c.request.Method, resume: way, approved: c.approved, inner: mcp.Lookup(result, "requestState"),
		sampled: c.sampled,
	}
	sealed, err := r.g.opts.Keys.Seal(seal.Round, route.to.connectionKey(x.Identity), state.encode())
	if err != nil {
		return nil, err
	}
	if err := r.keep(c, &state); err != nil {
		return nil, err
	}
	if way == resumeSuspended { // its server's answer comes here
		sealed = replica.Tag(r.g.replicas.Self(), sealed)
	}
	if way != resumeSuspended && !own { // other questions have the client's form already
		result = names.ExposeQuestions(route.to.mount.Namespace, r.g.redaction(route, &rec.entry).questions(plainQuestions(result)))
	}
	return mcp.SetMember(result, "requestState", mcp.Quote(sealed)), nil
}

// plainQuestions returns an input request without the gateway's own keys in the _meta of its
// questions: what a server writes there must not pass for the gateway's.
func plainQuestions(result []byte) []byte {
	requests := mcp.Lookup(result, "inputRequests")
	plain := requests
	for m := range mcp.Members(requests) {
		key, err := mcp.Unquote(m.Key(requests))
		question := m.Value.Of(requests)
		params := mcp.Lookup(question, "params")
		if clean := mcp.WithoutGatewayMeta(params); err == nil && mcp.IsObject(params) && !bytes.Equal(clean, params) {
			plain = mcp.SetMember(plain, key, mcp.SetMember(question, "params", clean))
		}
	}
	if bytes.Equal(plain, requests) {
		return result
	}
	return mcp.SetMember(result, "inputRequests", plain)
}

// keep opens the next round of a call, within the limits. A principal with too many
// suspended calls loses the oldest: clients that never come back must not use up its
// limit.
func (r *roundTrips) keep(c *call, state *roundState) error {
	x, route, rec := c.x, c.route, c.rec
	who, limits := x.Identity.Key(), &r.g.opts.Limits
	r.mu.Lock()
	var victim *openCall
	defer func() {
		r.mu.Unlock()
		if victim != nil {
			r.abandon(victim)
		}
	}()
	if c.suspended != nil && (r.suspendedOf[who] >= limits.SuspendedPerPrincipal || r.suspendedAt[route.Server] >= limits.SuspendedPerServer) {
		atServer := route.Server
		if r.suspendedOf[who] >= limits.SuspendedPerPrincipal {
			atServer = ""
		}
		if victim = r.displace(who, atServer); victim == nil {
			return refusal.TooManyRounds
		}
	}
	if len(r.open) >= limits.Rounds || r.of[who] >= limits.RoundsPerPrincipal {
		return refusal.TooManyRounds
	}
	if c.suspended != nil {
		r.suspendedOf[who]++
		r.suspendedAt[route.Server]++
	}
	r.of[who]++
	r.open[state.call] = &openCall{
		principal: who, server: route.Server,
		round: state.round, rec: rec, running: c.running, loopEnd: c.loopEnd, suspended: c.suspended, expires: time.UnixMilli(state.expires),
	}
	c.waits, c.held = true, true
	if c.suspended != nil { // without the memory of the whole request
		rec.x = c.suspended.currentClient()
	} else {
		rec.x = x.client()
	}
	return nil
}

// displace takes out the oldest suspended call of a principal, only those at server
// unless it is empty. It returns nil when there is none. mu is held.
func (r *roundTrips) displace(principal, server string) *openCall {
	oldest := ""
	for id, open := range r.open {
		if open.suspended == nil || open.principal != principal || server != "" && open.server != server {
			continue
		}
		if oldest == "" || open.expires.Before(r.open[oldest].expires) {
			oldest = id
		}
	}
	if oldest == "" {
		return nil
	}
	open := r.open[oldest]
	r.remove(oldest, open)
	if len(r.displaced) < r.g.opts.Limits.Rounds {
		r.displaced[oldest] = open.expires
	}
	return open
}

// allowed refuses an input request with a question that the client did not declare or
// the operator does not allow.
func (r *roundTrips) allowed(x *Exchange, route *Route, result []byte) error {
	requests := mcp.Lookup(result, "inputRequests")
	if requests != nil && !mcp.IsObject(requests) {
		return badQuestions(route)
	}
	asked := 0
	for m := range mcp.Members(requests) {
		if asked++; asked > maxInputs {
			return tooManyInputs(route)
		}
		request := m.Value.Of(requests)
		method, _ := mcp.LookupString(request, "method")
		params := mcp.Lookup(request, "params")
		if params != nil && !mcp.IsObject(params) || !mcp.IsObject(request) {
			return badQuestions(route)
		}
		if !r.g.mayAsk(x, route.to, method, params) {
			return notAllowed(route, method)
		}
	}
	return nil
}

// sweep ends the calls whose next round never came.
func (r *roundTrips) sweep(now time.Time) {
	r.mu.Lock()
	var abandoned []*openCall
	for id, open := range r.open {
		if now.Before(open.expires) {
			continue
		}
		abandoned = append(abandoned, open)
		r.remove(id, open)
	}
	for id, expires := range r.displaced {
		if !now.Before(expires) {
			delete(r.displaced, id)
		}
	}
	r.mu.Unlock()
	for _, open := range abandoned {
		r.abandon(open)
	}
}

// abandon ends a call that was taken out: at its server, and in the audit log.
func (r *roundTrips) abandon(open *openCall) {
	if open.suspended != nil {
		open.suspended.cancel(errNotAnswered)
	}
	if open.loopEnd != nil {
		open.loopEnd()
	}
	open.rec.entry.Outcome, open.rec.entry.Reason = audit.OutcomeAbandoned, "the client did not answer the server's question"
	open.rec.finish(&response{})
}

// closeAll ends all open calls at shutdown.
func (r *roundTrips) closeAll() { r.sweep(time.Now().Add(365 * 24 * time.Hour)) }

// waiting returns the calls that a server still works on while their client is asked.
func (r *roundTrips) waiting() map[*inflight.Call]*suspended {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[*inflight.Call]*suspended)
	for _, open := range r.open {
		if open.suspended != nil && open.running != nil {
			all[open.running] = open.suspended
		}
	}
	return all
}

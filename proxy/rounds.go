package proxy

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// rounds are the calls whose server has asked the client something and whose
// next round is awaited (2026-07-28 basic/patterns/mrtr). The state that the
// client carries meanwhile is sealed for its principal, bound to the same
// capability and arguments, and admitted once.
type rounds struct {
	g *Gateway

	mu   sync.Mutex
	open map[string]*openCall // by call id, until the seal expires
}

// openCall is one call between its rounds, or after its last one for as long
// as an old state of it could still be presented.
type openCall struct {
	next    int     // the round that may come
	rec     *record // nil while a round runs and when the call has ended
	expires time.Time
}

var errRound = mcp.Errorf(mcp.CodeInvalidParams, "Invalid requestState")

// admit lets a retry pass: its state is genuine, of this caller and this call,
// not expired and not used before. It swaps the server's own state into the
// call and tells that this is a retry.
func (r *rounds) admit(x *Exchange, route *Route, rec *record, call *mcp.Call) (retry bool, err error) {
	raw := x.Message.Param("requestState")
	if raw == nil {
		return false, nil
	}
	text, err := mcp.Unquote(raw)
	if err != nil || x.Era != mcp.Modern {
		return false, errRound
	}
	state, err := r.g.opts.Keys.open(labelRound, x.Identity.Key(), text)
	if err != nil {
		return false, errRound
	}
	field := func(name string) string { s, _ := mcp.LookupString(state, name); return s }
	number := func(name string) int64 { n, _ := strconv.ParseInt(string(mcp.Lookup(state, name)), 10, 64); return n }
	rec.hashArguments()
	if field("server") != route.Server || field("kind") != route.Kind.String() || field("original") != route.Original ||
		field("args") != rec.entry.ArgsHash || time.Now().UnixMilli() >= number("expires") {
		return false, errRound
	}
	id, round := field("call"), int(number("round"))

	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.open[id]
	if known == nil && !strings.HasPrefix(id, r.g.instance+"-") {
		return false, errRound // of before a restart: whether it was used is not known
	}
	if known == nil {
		known = &openCall{next: round, expires: time.UnixMilli(number("expires"))}
		if len(r.open) >= r.g.opts.Limits.Rounds {
			return false, errRoundsFull
		}
		r.open[id] = known
	}
	if round != known.next {
		return false, errRound
	}
	known.next++
	if known.rec != nil {
		rec.began, rec.entry.BytesIn = known.rec.began, rec.entry.BytesIn+known.rec.entry.BytesIn
		known.rec = nil
	}
	rec.entry.CallID, rec.entry.Rounds = id, round

	if inner := mcp.Lookup(state, "state"); inner != nil {
		call.Params = mcp.SetMember(call.Params, "requestState", inner)
	} else {
		call.Params = mcp.RemoveMember(call.Params, "requestState")
	}
	return true, nil
}

var errRoundsFull = &Refusal{
	Kind: "too_many_open_calls", Code: codeUnavailable, Phase: "rounds",
	Text: "Too many calls wait for an answer of their user; try again later.",
}

// seal replaces the server's state in an input request by the gateway's and
// keeps the call open for its next round.
func (r *rounds) seal(x *Exchange, route *Route, rec *record, call *mcp.Call, result []byte) ([]byte, error) {
	if fault := r.allowed(x, route, result); fault != nil {
		return nil, fault
	}
	if rec.entry.ArgsHash == "" {
		rec.hashArguments()
	}
	expires := time.Now().Add(r.g.opts.Limits.RoundTime)
	round := rec.entry.Rounds + 1
	state := []byte(`{"call":`)
	state = mcp.AppendQuote(state, rec.entry.CallID)
	state = fmt.Appendf(state, `,"round":%d,"expires":%d`, round, expires.UnixMilli())
	for _, m := range [...][2]string{
		{"server", route.Server}, {"kind", route.Kind.String()}, {"original", route.Original}, {"args", rec.entry.ArgsHash},
	} {
		state = append(append(mcp.AppendQuote(append(state, ','), m[0]), ':'), mcp.Quote(m[1])...)
	}
	if inner := mcp.Lookup(result, "requestState"); inner != nil {
		state = append(append(state, `,"state":`...), inner...)
	}
	sealed, err := r.g.opts.Keys.seal(labelRound, x.Identity.Key(), append(state, '}'))
	if err != nil {
		return nil, err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	open := r.open[rec.entry.CallID]
	if open == nil {
		if len(r.open) >= r.g.opts.Limits.Rounds {
			return nil, errRoundsFull
		}
		open = &openCall{}
		r.open[rec.entry.CallID] = open
	}
	open.next, open.rec, open.expires = round, rec, expires
	rec.parked = true
	rec.x = &Exchange{Identity: x.Identity} // not the memory of the whole request
	result = exposeQuestions(route.to.mount.Namespace, result)
	return mcp.SetMember(result, "requestState", mcp.Quote(sealed)), nil
}

// allowed refuses an input request with a question that the client did not
// declare or the operator does not allow.
func (r *rounds) allowed(x *Exchange, route *Route, result []byte) error {
	requests := mcp.Lookup(result, "inputRequests")
	if requests != nil && !mcp.IsObject(requests) {
		return &Refusal{
			Kind: "upstream_error", Code: codeUnavailable, Phase: "upstream",
			Text: fmt.Sprintf("The server %s asked for input in a form that is not of the protocol.", route.Server),
		}
	}
	for m := range mcp.Members(requests) {
		request := m.Value.Of(requests)
		method, _ := mcp.LookupString(request, "method")
		if !route.to.mount.Questions.allow(method) || !x.declares(method, mcp.Lookup(request, "params")) {
			return &Refusal{
				Kind: "question_refused", Code: codeUnavailable, Phase: "upstream",
				Text: fmt.Sprintf("The server %s asked for %q, which this client or the operator does not allow.", route.Server, method),
			}
		}
	}
	return nil
}

// sweep closes the entries of calls whose next round never came and forgets
// states that have expired.
func (r *rounds) sweep(now time.Time) {
	r.mu.Lock()
	var abandoned []*record
	for id, open := range r.open {
		if now.Before(open.expires) {
			continue
		}
		if open.rec != nil {
			abandoned = append(abandoned, open.rec)
		}
		delete(r.open, id)
	}
	r.mu.Unlock()
	for _, rec := range abandoned {
		rec.entry.Outcome, rec.entry.Reason = audit.OutcomeAbandoned, "the client did not answer the server's question"
		rec.finish(&reply{})
	}
}

// closeAll closes what is open when the gateway ends.
func (r *rounds) closeAll() { r.sweep(time.Now().Add(365 * 24 * time.Hour)) }

// allow tells whether the operator lets the server ask a question.
func (q Questions) allow(method string) bool {
	switch method {
	case mcp.MethodSampling:
		return q.Sampling
	case mcp.MethodElicit:
		return q.Elicitation
	case mcp.MethodRoots:
		return q.Roots
	}
	return false
}

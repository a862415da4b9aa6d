package relay

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// state is what the Relay must know about a client so that it can continue with another
// gateway: what is in flight in both directions, and what a legacy client said once for
// its whole session. A modern client repeats everything with every request. The gateway
// bounds the size of the state, because it accepts a bounded number of requests and
// subscriptions from a client.
type state struct {
	limits mcp.Limits
	prefix string // prefix of the ids of our own requests, which nobody else can guess

	mu         sync.Mutex
	generation int                       // number of previous gateways
	seq        int                       // sequence number of requests
	pending    map[string]pendingRequest // requests of the client without an answer, by id
	asked      map[string]mcp.ID         // requests to the client without an answer: the id that the client sees, with the gateway's id
	again      [][]byte                  // lines of the client for the next gateway, in order

	hello       []byte // params of the client's initialize, once it has succeeded
	version     string // the result of that initialize
	initialized bool   // the client has sent notifications/initialized
	level       []byte // params of the last logging/setLevel
	subscribed  map[string][]byte
}

// pendingRequest is a request without an answer.
type pendingRequest struct {
	seq    int
	id     mcp.ID
	method string
	params []byte // what it changes in the session
	line   []byte // the line to send again; nil if the request may have an effect
}

func newState(limits mcp.Limits) state {
	return state{
		limits: limits, prefix: "toolgate-stdio-" + rand.Text(),
		pending: make(map[string]pendingRequest), asked: make(map[string]mcp.ID), subscribed: make(map[string][]byte),
	}
}

// GenerationNow tells how many gateways the client had before this one.
func (s *state) GenerationNow() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation
}

// fromClient takes a line of the client and returns what to send to the gateway, nil for
// nothing. The gateway refuses what is not a message.
func (s *state) fromClient(raw []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch, ok, err := mcp.SplitBatch(raw, s.limits, len(raw))
	switch {
	case err != nil:
		return raw
	case !ok:
		return s.sent(raw, true)
	}
	var out [][]byte
	same := true
	for _, one := range batch {
		got := s.sent(one, false)
		same = same && bytes.Equal(got, one)
		if got != nil {
			out = append(out, got)
		}
	}
	switch {
	case same:
		return raw
	case len(out) == 0:
		return nil
	}
	return append(append([]byte{'['}, bytes.Join(out, []byte{','})...), ']')
}

// sent records one message of the client. The caller holds mu.
func (s *state) sent(raw []byte, alone bool) []byte {
	msg, err := mcp.Parse(raw, s.limits)
	if err != nil {
		return raw
	}
	switch msg.Kind {
	case mcp.KindRequest:
		s.seq++
		f := pendingRequest{seq: s.seq, id: msg.ID, method: msg.Method}
		if alone && mcp.Repeatable(msg.Method) {
			f.line = raw
		}
		switch msg.Method {
		case mcp.MethodInitialize, mcp.MethodSetLevel, mcp.MethodSubscribe, mcp.MethodUnsubscribe:
			if msg.Meta(mcp.MetaVersion) == nil {
				f.params = msg.Params()
			}
		}
		s.pending[msg.ID.Key()] = f
	case mcp.KindNotification:
		switch msg.Method {
		case mcp.NotifyInitialized:
			s.initialized = true
		case mcp.NotifyCancelled: // nobody waits for the answer any more
			if id, ok := mcp.ParseID(msg.Param("requestId")); ok {
				delete(s.pending, id.Key())
			}
		}
	case mcp.KindResponse:
		return s.answered(raw, &msg)
	case mcp.KindInvalid: // is an error
	}
	return raw
}

// answered returns a client's answer with the id that its gateway knows. Answers to
// requests of an earlier gateway are dropped.
func (s *state) answered(raw []byte, msg *mcp.Message) []byte {
	id, ok := s.asked[msg.ID.Key()]
	delete(s.asked, msg.ID.Key())
	switch {
	case !ok && s.generation > 0:
		return nil
	case !ok || s.generation == 0:
		return raw
	case msg.Fault() != nil:
		return mcp.AppendFault(nil, id, mcp.ParseError(msg.Fault()))
	}
	return mcp.AppendResult(nil, id, msg.Result())
}

// toClient takes a line of the gateway and returns what to send to the client. It returns
// an error if the gateway does not continue the client's session.
func (s *state) toClient(raw []byte) ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limits := mcp.Limits{LoneSurrogates: true}
	if batch, ok, err := mcp.SplitBatch(raw, limits, len(raw)); ok || err != nil {
		for _, one := range batch {
			if msg, err := mcp.Parse(one, limits); err == nil && msg.Kind == mcp.KindResponse {
				s.settled(&msg)
			}
		}
		return [][]byte{raw}, nil
	}
	msg, err := mcp.Parse(raw, limits)
	if err != nil {
		return [][]byte{raw}, nil // the client judges it
	}
	switch {
	case msg.Kind == mcp.KindResponse && strings.HasPrefix(msg.ID.Key(), `"`+s.prefix):
		return s.ours(&msg)
	case msg.Kind == mcp.KindResponse:
		s.settled(&msg)
	case msg.Kind == mcp.KindRequest:
		id := s.shown(msg.ID)
		s.asked[id.Key()] = msg.ID
		if id != msg.ID {
			raw = mcp.AppendRequest(nil, id, msg.Method, msg.Params())
		}
	case msg.Method == mcp.NotifyCancelled:
		if id, ok := mcp.ParseID(msg.Param("requestId")); ok {
			shown := s.shown(id)
			delete(s.asked, shown.Key())
			if shown != id {
				raw = mcp.AppendNotification(nil, msg.Method, mcp.SetMember(msg.Params(), "requestId", []byte(shown)))
			}
		}
	}
	return [][]byte{raw}, nil
}

// shown returns the id under which the client sees a gateway's request. Gateways may use
// the same ids, and the client may still answer a request of an earlier one.
func (s *state) shown(id mcp.ID) mcp.ID {
	if s.generation == 0 {
		return id
	}
	return mcp.StringID(fmt.Sprintf("%d:%s", s.generation, id))
}

// settled records an answer to the client.
func (s *state) settled(msg *mcp.Message) {
	f, ok := s.pending[msg.ID.Key()]
	delete(s.pending, msg.ID.Key())
	if !ok || f.params == nil || msg.Fault() != nil {
		return
	}
	uri := string(mcp.Lookup(f.params, "uri"))
	switch f.method {
	case mcp.MethodInitialize:
		s.hello = f.params
		s.version, _ = mcp.LookupString(msg.Result(), "protocolVersion")
	case mcp.MethodSetLevel:
		s.level = f.params
	case mcp.MethodSubscribe:
		s.subscribed[uri] = f.params
	case mcp.MethodUnsubscribe:
		delete(s.subscribed, uri)
	}
}

// initializeID is the end of the id of the initialize that is sent on the client's behalf.
const initializeID = "-initialize"

// ours takes an answer to a request that was sent on the client's behalf. A new gateway
// may list other things than the last one, so the client is told that the lists have
// changed.
func (s *state) ours(msg *mcp.Message) ([][]byte, error) {
	if !strings.HasSuffix(msg.ID.Key(), initializeID) {
		return nil, nil
	}
	version, _ := mcp.LookupString(msg.Result(), "protocolVersion")
	switch {
	case msg.Fault() != nil:
		return nil, failure.Newf(failure.Unreachable, "the gateway that took over does not continue this client's session: %w; restart this client", mcp.ParseError(msg.Fault()))
	case version != s.version:
		return nil, failure.Newf(failure.Unreachable, "the gateway that took over speaks %s, and this client agreed on %s; restart this client", version, s.version)
	}
	var out [][]byte
	for _, c := range []struct{ capability, method string }{
		{"tools", mcp.NotifyToolsChanged}, {"prompts", mcp.NotifyPromptsChanged}, {"resources", mcp.NotifyResourcesChanged},
	} {
		if string(mcp.Lookup(msg.Result(), "capabilities", c.capability, "listChanged")) == "true" && s.initialized {
			out = append(out, mcp.AppendNotification(nil, c.method, nil))
		}
	}
	return out, nil
}

// keep keeps a line of the client for the next gateway. If it is a request, it is no
// longer in flight.
func (s *state) keep(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	messages, ok, err := mcp.SplitBatch(line, s.limits, len(line))
	if !ok || err != nil {
		messages = [][]byte{line}
	}
	for _, one := range messages {
		if msg, err := mcp.Parse(one, s.limits); err == nil && msg.Kind == mcp.KindRequest {
			delete(s.pending, msg.ID.Key())
		}
	}
	s.again = append(s.again, line)
}

// lost is called when a gateway has gone. It returns messages for the client: an error
// for each request in flight, and a cancellation for each request to the client whose
// answer is no longer needed. What can be repeated is kept for the next gateway, unless
// there is none.
func (s *state) lost(last bool) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out, again [][]byte
	for _, f := range slices.SortedFunc(maps.Values(s.pending), func(a, b pendingRequest) int { return cmp.Compare(a.seq, b.seq) }) {
		switch {
		case f.method == mcp.MethodListen && last: // it ends with its client and has no answer
		case f.method == mcp.MethodListen:
			out = append(out, mcp.AppendFault(nil, f.id, refusal.GatewayLost(false)))
		case f.line == nil:
			out = append(out, mcp.AppendFault(nil, f.id, refusal.GatewayLost(true)))
		case last:
			out = append(out, mcp.AppendFault(nil, f.id, refusal.GatewayLost(false)))
		default:
			again = append(again, f.line)
		}
	}
	again = append(again, s.again...)
	if last {
		for _, line := range again {
			if msg, err := mcp.Parse(line, s.limits); err == nil && msg.Kind == mcp.KindRequest {
				out = append(out, mcp.AppendFault(nil, msg.ID, refusal.GatewayLost(false)))
			}
		}
		again = nil
	}
	for _, key := range slices.Sorted(maps.Keys(s.asked)) {
		params := append(append([]byte(`{"requestId":`), idOf(key)...), `,"reason":"the gateway that asked is gone"}`...)
		out = append(out, mcp.AppendNotification(nil, mcp.NotifyCancelled, params))
	}
	clear(s.pending)
	clear(s.asked)
	s.again = again
	s.generation++
	return out
}

// idOf returns an id with a key.
func idOf(key string) mcp.ID {
	if text, ok := strings.CutPrefix(key, `"`); ok {
		return mcp.StringID(text)
	}
	return mcp.ID(key)
}

// catchUp returns what a new gateway must be told first: the session of a legacy client,
// with requests of our own, and then lines of the client.
func (s *state) catchUp() (session, again [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again, s.again = s.again, nil
	if s.generation == 0 {
		return nil, again
	}
	say := func(end, method string, params []byte) {
		id := mcp.StringID(fmt.Sprintf("%s-%d%s", s.prefix, s.generation, end))
		session = append(session, mcp.AppendRequest(nil, id, method, params))
	}
	initialized := mcp.AppendNotification(nil, mcp.NotifyInitialized, nil)
	if s.hello == nil {
		if s.initialized { // after the initialize that is among them
			again = append(again, initialized)
		}
		return nil, again
	}
	say(initializeID, mcp.MethodInitialize, s.hello)
	if s.initialized {
		session = append(session, initialized)
	}
	if s.level != nil {
		say("-level", mcp.MethodSetLevel, s.level)
	}
	for _, uri := range slices.Sorted(maps.Keys(s.subscribed)) {
		say("-subscribe-"+fmt.Sprint(len(session)), mcp.MethodSubscribe, s.subscribed[uri])
	}
	return session, again
}

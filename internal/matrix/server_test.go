//go:build e2e

package matrix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// scripted is one MCP server of one revision over one transport, with whatever
// connections the gateway opens to it. It holds every message that it gets
// against its own revision.
type scripted struct {
	kind  kind
	name  string // namespace at the gateway
	board *board
	// lastWord tells that a subscription which the gateway gives up is answered
	// all the same, as some servers do.
	lastWord bool

	mu       sync.Mutex
	peers    map[*peer]bool
	changes  int                // of the lists
	states   map[string]string  // the request state that each cell has to echo
	first    map[string]string  // params of each cell's first round
	tasks    map[string]*job    // by task id
	resumes  map[string][]event // what a broken stream has yet to say, by event id
	restless map[string]bool    // resources that change whenever a subscription does
}

func newScripted(k kind, name string, b *board) *scripted {
	return &scripted{
		kind: k, name: name, board: b, peers: make(map[*peer]bool), states: make(map[string]string),
		first: make(map[string]string), tasks: make(map[string]*job), resumes: make(map[string][]event),
		restless: make(map[string]bool),
	}
}

// peer is one connection: a process, a stream, or a session. Over modern HTTP,
// which has none, it is the gateway as a whole.
type peer struct {
	s *scripted
	// aside sends what belongs to no request; it does not block.
	aside func(raw []byte)

	mu          sync.Mutex
	cell        string // the last one that was named on it
	initialized bool   // initialize was answered
	ready       bool   // notifications/initialized came
	declared    []byte // client capabilities
	level       string
	subs        map[string]bool
	seen        map[string]bool // ids of requests
	inflight    map[string]*incoming
	asked       map[string]chan mcp.Message
	question    int
	listens     map[string]*incoming
}

func (s *scripted) connect(aside func(raw []byte)) *peer {
	p := &peer{
		s: s, aside: aside, subs: make(map[string]bool), seen: make(map[string]bool),
		inflight: make(map[string]*incoming), asked: make(map[string]chan mcp.Message), listens: make(map[string]*incoming),
	}
	s.mu.Lock()
	s.peers[p] = true
	s.mu.Unlock()
	return p
}

// gone ends what is in flight on a connection that has closed.
func (p *peer) gone() {
	p.s.mu.Lock()
	delete(p.s.peers, p)
	p.s.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, in := range p.inflight {
		in.cancel(errHungUp)
	}
}

var (
	errHungUp    = errors.New("the connection was closed")
	errWithdrawn = errors.New("notifications/cancelled")
)

// incoming is one request of the gateway while it is served.
type incoming struct {
	p      *peer
	msg    mcp.Message
	header http.Header // over HTTP; else nil
	cell   string
	send   func(raw []byte) // on the stream of the request
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// broken notes a broken rule of the gateway.
func (p *peer) broken(format string, args ...any) {
	p.mu.Lock()
	id := p.cell
	p.mu.Unlock()
	p.s.board.problem(id, "server %s: %s", p.s.kind, fmt.Sprintf(format, args...))
}

// cellOf finds the id of the cell in a message, empty when it names none.
func cellOf(msg *mcp.Message) string {
	params := msg.Params()
	if id, ok := mcp.LookupString(params, "arguments", "cell"); ok {
		return id
	}
	return ""
}

// receive takes one message of the gateway. A request comes back as what has to
// be served; everything else has been.
func (p *peer) receive(raw []byte, header http.Header, send func([]byte)) *incoming {
	msg, err := mcp.Parse(raw, mcp.Limits{})
	if err != nil {
		p.broken("got %s: %v", raw, err)
		return nil
	}
	if id := cellOf(&msg); id != "" {
		p.mu.Lock()
		p.cell = id
		p.mu.Unlock()
	}
	switch msg.Kind {
	case mcp.KindResponse:
		p.answered(msg)
	case mcp.KindNotification:
		p.notified(msg)
	case mcp.KindRequest:
		return p.requested(msg, header, send)
	case mcp.KindInvalid:
	}
	return nil
}

// probe tells whether a message only asks of which era the server is. Every
// server may be asked whether it is modern; one on a channel that may never
// answer that, and a slow start looks so, is tried with the legacy handshake
// too (2026-07-28 basic/versioning, Backward Compatibility).
func (p *peer) probe(msg *mcp.Message) bool {
	if p.s.kind.modern() {
		return msg.Method == mcp.MethodInitialize
	}
	return msg.Method == mcp.MethodDiscover
}

func (p *peer) requested(msg mcp.Message, header http.Header, send func([]byte)) *incoming {
	p.mu.Lock()
	in := &incoming{p: p, msg: msg, header: header, send: send, cell: cmp.Or(cellOf(&msg), p.cell)}
	key := msg.ID.Key()
	twice := p.inflight[key] != nil || p.seen[key] && !(p.s.kind.modern() && p.s.kind.streams())
	early := !p.ready && !p.s.kind.modern() && msg.Method != mcp.MethodInitialize && msg.Method != mcp.MethodPing
	p.seen[key], p.inflight[key] = true, in
	in.ctx, in.cancel = context.WithCancelCause(context.Background())
	p.mu.Unlock()
	if twice {
		p.broken("the id %s is used twice: %s", msg.ID, msg.Raw)
	}
	if p.probe(&msg) {
		return in
	}
	if early {
		p.broken("%s came before notifications/initialized", msg.Method)
	}
	if err := grammars()[p.s.kind.rev].check(clientRole, &msg, ""); err != nil {
		p.broken("%v: %s", err, msg.Raw)
	}
	p.hop(&msg)
	return in
}

// hop holds a request to what belongs to one hop of its way.
func (p *peer) hop(msg *mcp.Message) {
	meta := msg.Param("_meta")
	if !p.s.kind.modern() {
		for m := range mcp.Members(meta) {
			if name := string(meta[m.KeyText.Start:m.KeyText.End]); len(name) > len(mcp.MetaPrefix) && name[:len(mcp.MetaPrefix)] == mcp.MetaPrefix {
				p.broken("a member of another hop is in _meta: %s", msg.Raw)
			}
		}
		return
	}
	if version, _ := mcp.LookupString(meta, mcp.MetaVersion); version != string(p.s.kind.rev) {
		p.broken("the request is of the revision %q: %s", version, msg.Raw)
	}
	if !mcp.IsObject(msg.Meta(mcp.MetaClientInfo)) || !mcp.IsObject(msg.Meta(mcp.MetaCapabilities)) {
		p.broken("the request does not say what its client is: %s", msg.Raw)
	}
}

// done takes a request out of flight.
func (in *incoming) done() {
	in.p.mu.Lock()
	if in.p.inflight[in.msg.ID.Key()] == in {
		delete(in.p.inflight, in.msg.ID.Key())
	}
	in.p.mu.Unlock()
	in.cancel(nil)
}

func (p *peer) notified(msg mcp.Message) {
	if err := grammars()[p.s.kind.rev].check(clientRole, &msg, ""); err != nil {
		p.broken("%v: %s", err, msg.Raw)
	}
	switch msg.Method {
	case mcp.NotifyInitialized:
		p.mu.Lock()
		twice, soon := p.ready, !p.initialized
		p.ready = true
		p.mu.Unlock()
		if twice || soon {
			p.broken("notifications/initialized at the wrong time")
		}
	case mcp.NotifyCancelled:
		if p.s.kind.modern() && p.s.kind.streams() {
			p.broken("a cancellation over HTTP is the end of the connection: %s", msg.Raw)
		}
		p.withdraw(msg)
	}
}

// withdraw ends the request that the gateway gave up. One that is not in flight
// any more was answered on the way.
func (p *peer) withdraw(msg mcp.Message) {
	id, _ := mcp.ParseID(msg.Param("requestId"))
	p.mu.Lock()
	in, known := p.inflight[id.Key()], p.seen[id.Key()]
	p.mu.Unlock()
	switch {
	case in != nil:
		in.cancel(errWithdrawn)
	case !known:
		p.broken("a cancellation of a request that never was: %s", msg.Raw)
	}
}

// answered hands an answer of the gateway to whoever asked.
func (p *peer) answered(msg mcp.Message) {
	p.mu.Lock()
	waiting := p.asked[msg.ID.Key()]
	delete(p.asked, msg.ID.Key())
	p.mu.Unlock()
	if waiting == nil {
		p.broken("an answer to a question that nobody asked: %s", msg.Raw)
		return
	}
	waiting <- msg
}

// questionTime bounds the wait for the answer to one question.
const questionTime = 15 * time.Second

// put sends a request to the client on the stream of a request, and its answer
// to whoever waits, who takes it without delay.
func (in *incoming) put(method string, params []byte, answer chan mcp.Message) mcp.ID {
	p := in.p
	p.mu.Lock()
	p.question++
	id := mcp.StringID(fmt.Sprintf("q%d", p.question))
	if p.question%2 == 0 { // both kinds of ids, the number beyond what a double holds
		id = mcp.NumberID(9007199254740993 + int64(p.question))
	}
	p.asked[id.Key()] = answer
	p.mu.Unlock()
	in.send(mcp.AppendRequest(nil, id, method, params))
	return id
}

// ask puts a question and waits for its answer (legacy revisions).
func (in *incoming) ask(method string, params []byte) (mcp.Message, error) {
	p := in.p
	answer := make(chan mcp.Message, 1)
	id := in.put(method, params, answer)
	ctx, cancel := context.WithTimeout(in.ctx, questionTime)
	defer cancel()
	select {
	case msg := <-answer:
		if msg.ID != id {
			p.broken("the id %s came back as %s", id, msg.ID)
		}
		if err := grammars()[p.s.kind.rev].check(clientRole, &msg, method); err != nil {
			p.broken("%v: %s", err, msg.Raw)
		}
		return msg, nil
	case <-ctx.Done():
		return mcp.Message{}, fmt.Errorf("%s was not answered: %w", method, context.Cause(ctx))
	}
}

// notify sends a notification on the stream of a request.
func (in *incoming) notify(method, params string) {
	in.send(mcp.AppendNotification(nil, method, []byte(params)))
}

// capabilities are what the client of a request declared: with it, or for the
// whole connection.
func (in *incoming) capabilities() []byte {
	if in.p.s.kind.modern() {
		return in.msg.Meta(mcp.MetaCapabilities)
	}
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	return in.p.declared
}

// serve answers one request; nil is no answer at all, because it was given up.
func (in *incoming) serve() []byte {
	defer in.done()
	result, fault := in.dispatch()
	answered := in.msg.Method == mcp.MethodListen && in.p.s.lastWord && errors.Is(context.Cause(in.ctx), errWithdrawn)
	switch {
	case in.ctx.Err() != nil && !answered:
		return nil
	case fault != nil:
		return mcp.AppendFault(nil, in.msg.ID, fault)
	}
	out := mcp.AppendResult(nil, in.msg.ID, in.finish(result))
	if msg, err := mcp.Parse(out, mcp.Limits{}); err != nil {
		in.p.broken("the test's own answer: %v: %s", err, out)
	} else if err := grammars()[in.p.s.kind.rev].check(serverRole, &msg, in.msg.Method); err != nil && in.msg.Method != mcp.MethodDiscover {
		in.p.broken("the test's own answer: %v: %s", err, out)
	}
	return out
}

// finish gives a modern result what every one of them has.
func (in *incoming) finish(result []byte) []byte {
	if !in.p.s.kind.modern() {
		return result
	}
	if mcp.LookupSpan(result, "resultType").Absent() {
		result = mcp.SetMember(result, "resultType", []byte(`"complete"`))
	}
	own := `"` + mcp.MetaServerInfo + `":` + in.p.s.info()
	if in.msg.Method == mcp.MethodListen {
		own += `,"` + mcp.MetaSubscriptionID + `":` + string(in.msg.ID)
	}
	return mcp.RewriteMeta(result, []byte(own))
}

func (s *scripted) info() string {
	return `{"name":"scripted","version":` + string(mcp.Quote(string(s.kind.rev))) + `}`
}

// dispatch answers one request by its method.
func (in *incoming) dispatch() (result []byte, fault *mcp.Error) {
	s, p := in.p.s, in.p
	switch in.msg.Method {
	case mcp.MethodDiscover:
		if !s.kind.modern() {
			return nil, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")
		}
		return []byte(`{"supportedVersions":["` + string(s.kind.rev) + `"],"capabilities":` + s.capabilities() + `,"ttlMs":0,"cacheScope":"public"}`), nil
	case mcp.MethodInitialize:
		if s.kind.modern() {
			fault := mcp.Errorf(mcp.CodeUnsupportedVersion, "Unsupported protocol version")
			fault.Data = []byte(`{"supported":["` + string(s.kind.rev) + `"]}`)
			return nil, fault
		}
		return in.initialize(), nil
	case mcp.MethodPing:
		return []byte(`{}`), nil
	case mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResources, mcp.MethodTemplates:
		return s.list(in.msg.Method), nil
	case mcp.MethodToolsCall:
		return in.callTool()
	case mcp.MethodPromptsGet:
		return in.getPrompt()
	case mcp.MethodRead:
		return in.read()
	case mcp.MethodComplete:
		return in.complete()
	case mcp.MethodSetLevel:
		p.mu.Lock()
		p.level, _ = in.msg.ParamString("level")
		p.mu.Unlock()
		return []byte(`{}`), nil
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		uri, _ := in.msg.ParamString("uri")
		p.mu.Lock()
		watching := slices.Collect(maps.Keys(p.subs))
		if p.subs[uri] = true; in.msg.Method == mcp.MethodUnsubscribe {
			delete(p.subs, uri)
		}
		p.mu.Unlock()
		s.watched(uri, in.msg.Method == mcp.MethodSubscribe)
		s.disturbed(watching)
		return []byte(`{}`), nil
	case mcp.MethodListen:
		in.listen()
		return []byte(`{}`), nil
	}
	if result, fault, ok := in.task(); ok {
		return result, fault
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")
}

func (in *incoming) initialize() []byte {
	p := in.p
	p.mu.Lock()
	twice := p.initialized
	p.initialized, p.declared = true, in.msg.Param("capabilities")
	p.mu.Unlock()
	if twice {
		p.broken("initialize came twice")
	}
	return []byte(`{"protocolVersion":"` + string(p.s.kind.rev) + `","capabilities":` + p.s.capabilities() + `,"serverInfo":` + p.s.info() + `}`)
}

func (s *scripted) connected() []*peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*peer
	for p := range s.peers {
		all = append(all, p)
	}
	return all
}

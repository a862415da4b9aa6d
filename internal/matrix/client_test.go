//go:build e2e

package matrix

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/findview"
)

// client is one scripted MCP client of one revision over one transport. It
// holds every message of the gateway against its own revision, and answers
// what it is asked.
type client struct {
	kind         kind
	name         string // in its roots and in its clientInfo
	capabilities string // raw
	offered      []byte // capabilities of the gateway, raw; set before any cell
	view         proxy.View
	link         link
	life         context.Context
	end          context.CancelFunc
	running      sync.WaitGroup // answers to questions
	// think is called with each question before it is answered, on a goroutine
	// of its own; false leaves the question without an answer. Nil answers at
	// once.
	think func(question mcp.Message, from *origin) bool

	mu        sync.Mutex
	cell      *cell // that broken rules belong to
	ids       int
	pending   map[string]*request // by the raw id
	tokens    map[string]*request // by the raw progress token
	questions map[string]bool     // ids that the gateway has used
	aside     []mcp.Message       // notifications of no request, in order
	asked     []mcp.Message       // questions, in order
	changed   chan struct{}       // closed and replaced with every message
}

// link carries the messages of a client.
type link interface {
	// send sends a message. The answer to a request comes in with
	// [client.receive], from whatever goroutine.
	send(raw []byte, req *request) error
	// forget stops waiting for a request; over modern HTTP that is its
	// cancellation.
	forget(req *request)
	// stream opens the standalone stream where the transport has one.
	stream() error
	// close ends the connection, and returns when nothing of it is left.
	close()
}

// request is one request of the client.
type request struct {
	id     mcp.ID
	method string
	params []byte
	token  string

	// Guarded by the client's mutex.
	notes     []mcp.Message // notifications that belong to it, in order
	answer    *mcp.Message
	progress  float64
	withdrawn bool
	acked     bool // of a subscription
	over      bool // its stream has ended

	ctx    context.Context // of its HTTP exchange
	cancel context.CancelFunc
	done   chan struct{} // closed with the answer, or the end without one
	events []string      // ids of the events of its stream
	hold   func() bool   // called with every event; false breaks the stream off
	off    chan struct{} // closed when it is broken off
}

// origin is where a message came in: on the one channel (nil), or on the stream
// of a request.
type origin struct {
	req        *request
	standalone bool
}

func (c *client) broken(format string, args ...any) {
	c.mu.Lock()
	cell := c.cell
	c.mu.Unlock()
	if cell != nil {
		cell.problem("client %s: %s", c.kind, fmt.Sprintf(format, args...))
	}
}

// newRequest makes a request with an id of its own: a text, or a number beyond
// what a double holds.
func (c *client) newRequest(method string, params []byte) *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids++
	id := mcp.NumberID(9007199254740993 + int64(c.ids))
	if c.ids%2 == 0 {
		id = mcp.ID(fmt.Sprintf(`"id \u00e9 %d"`, c.ids))
	}
	req := &request{id: id, method: method, params: params, done: make(chan struct{})}
	if token := mcp.Lookup(params, "_meta", mcp.MetaProgressToken); token != nil {
		req.token = string(token)
		c.tokens[req.token] = req
	}
	req.ctx, req.cancel = context.WithCancel(c.life)
	c.pending[string(id)] = req
	return req
}

// start sends a request.
func (c *client) start(method string, params []byte) (*request, error) {
	req := c.newRequest(method, params)
	return req, c.launch(req)
}

func (c *client) launch(req *request) error {
	raw := mcp.AppendRequest(nil, req.id, req.method, c.sent(req))
	if err := c.link.send(raw, req); err != nil {
		return fmt.Errorf("%s: %w", req.method, err)
	}
	return nil
}

// sent are the params of a request as they are sent: in the find view a tool is called by
// one of its tools.
func (c *client) sent(req *request) []byte {
	if c.view != proxy.FindView || req.method != mcp.MethodToolsCall {
		return req.params
	}
	name, _ := mcp.LookupString(req.params, "name")
	if findview.Has(name) {
		return req.params
	}
	inner := mcp.SetMember(nil, "name", mcp.Quote(name))
	if arguments := mcp.Lookup(req.params, "arguments"); arguments != nil {
		inner = mcp.SetMember(inner, "arguments", arguments)
	}
	return mcp.SetMember(mcp.SetMember(req.params, "name", mcp.Quote(findview.CallDestructive)), "arguments", inner)
}

// wait waits for the answer to a request; withdrawn requests have none.
func (c *client) wait(ctx context.Context, req *request) (mcp.Message, error) {
	select {
	case <-req.done:
	case <-ctx.Done():
		return mcp.Message{}, fmt.Errorf("waiting for the answer to %s: %w", req.method, context.Cause(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if req.answer == nil {
		return mcp.Message{}, fmt.Errorf("%s ended without an answer", req.method)
	}
	return *req.answer, nil
}

// waitFor waits until a condition holds; it is called with the mutex held.
func (c *client) waitFor(ctx context.Context, what string, holds func() bool) error {
	for {
		c.mu.Lock()
		ok, changed := holds(), c.changed
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}

// wake tells whoever waits that something came; the mutex is held.
func (c *client) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// withdraw cancels a request as the revision and the transport do it.
func (c *client) withdraw(req *request) error {
	c.mu.Lock()
	req.withdrawn = true
	c.mu.Unlock()
	if c.kind.modern() && c.kind.streams() {
		c.link.forget(req)
		return nil
	}
	params := append(append([]byte(`{"requestId":`), req.id...), '}')
	return c.link.send(mcp.AppendNotification(nil, mcp.NotifyCancelled, params), nil)
}

// outcome is how a request ended, over all its rounds.
type outcome struct {
	result []byte
	fault  *mcp.Error
	last   *request
	rounds int // in which a modern client was asked
	asked  []string
}

// mostRounds bounds the rounds of one request.
const mostRounds = 12

// do sends a request and answers what it asks, until its final answer.
func (c *client) do(ctx context.Context, method string, params []byte) (outcome, error) {
	c.mu.Lock()
	before := len(c.asked)
	c.mu.Unlock()
	var out outcome
	full := c.meta(params, "")
	for {
		req, err := c.start(method, full)
		if err != nil {
			return out, err
		}
		msg, err := c.wait(ctx, req)
		if err != nil {
			return out, err
		}
		out.last, out.result = req, msg.Result()
		if fault := msg.Fault(); fault != nil {
			out.fault = mcp.ParseError(fault)
		}
		kind, _ := mcp.LookupString(out.result, "resultType")
		if kind != mcp.ResultInputRequired {
			break
		}
		if out.rounds++; out.rounds > mostRounds {
			return out, errors.New("there is no end to the rounds")
		}
		if full, err = c.retry(params, out.result); err != nil {
			return out, err
		}
		_, asked := c.answersTo(out.result)
		out.asked = append(out.asked, asked...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, msg := range c.asked[before:] {
		out.asked = append(out.asked, msg.Method)
	}
	return out, nil
}

// retry returns the params of the next round (2026-07-28 basic/patterns/mrtr,
// Client Requirements).
func (c *client) retry(params, required []byte) ([]byte, error) {
	next, state := params, mcp.Lookup(required, "requestState")
	if mcp.Lookup(required, "inputRequests") == nil && state == nil {
		return nil, fmt.Errorf("input is required, but which: %s", required)
	}
	if responses, _ := c.answersTo(required); responses != nil {
		next = mcp.SetMember(next, "inputResponses", responses)
	}
	if state != nil {
		next = mcp.SetMember(next, "requestState", state)
	}
	return c.meta(next, ""), nil
}

// answersTo answers the questions of a round.
func (c *client) answersTo(required []byte) (responses []byte, asked []string) {
	requests := mcp.Lookup(required, "inputRequests")
	for m := range mcp.Members(requests) {
		ask := m.Value.Of(requests)
		method, _ := mcp.LookupString(ask, "method")
		asked = append(asked, method)
		responses = mcp.SetMember(responses, string(requests[m.KeyText.Start:m.KeyText.End]), c.reply(method, mcp.Lookup(ask, "params")))
	}
	return responses, asked
}

// meta returns params as the revision sends them: with more in _meta, and with
// what every modern request says of its client.
func (c *client) meta(params []byte, more string) []byte {
	own := more
	if c.kind.modern() {
		if own != "" {
			own += ","
		}
		own += `"` + mcp.MetaVersion + `":"` + string(c.kind.rev) + `","` + mcp.MetaClientInfo + `":` + c.info() +
			`,"` + mcp.MetaCapabilities + `":` + c.capabilities
	}
	if own == "" {
		return params
	}
	meta := mcp.Lookup(params, "_meta")
	if meta == nil || string(meta) == "{}" {
		return mcp.SetMember(params, "_meta", []byte("{"+own+"}"))
	}
	if mcp.Lookup(meta, mcp.MetaVersion) != nil {
		return params
	}
	return mcp.SetMember(params, "_meta", append([]byte("{"+own+","), meta[1:]...))
}

func (c *client) info() string { return `{"name":` + string(mcp.Quote(c.name)) + `,"version":"1"}` }

// barrier returns when the gateway has answered a request that came behind all
// others, so that what it sent before has been received.
func (c *client) barrier(ctx context.Context) error {
	method := mcp.MethodPing
	if c.kind.modern() {
		method = mcp.MethodDiscover
	}
	got, err := c.do(ctx, method, nil)
	if err == nil && got.fault != nil {
		err = got.fault
	}
	return err
}

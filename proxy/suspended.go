package proxy

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// suspended is one call of a modern client to a legacy server. Such a server asks by
// requests while it works, and such a client answers only with another request
// of its own. So the call runs apart from the requests of its client: where the
// server asks, the client gets an input request and the call is suspended,
// holding its place at no server, until the retry brings the answers.
//
// It ends with its call, when its round expires, when the request that it
// serves is cancelled, and with the gateway. What it has begun is never begun
// again.
type suspended struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the server has answered
	answer mcp.Answer    // set before
	err    error         // set before

	fresh chan struct{} // capacity 1: a question came, or one was taken back

	mu     sync.Mutex
	now    *Exchange // the request that is served; nil while the client is asked
	client *Exchange // what the client last said of itself, without its request
	open   map[string]*pendingRequest
	names  []string // keys of open, in the order of asking
	asked  int
}

// pendingRequest is a question of a legacy server whose answer is awaited.
type pendingRequest struct {
	request []byte       // an InputRequest, raw
	answer  func([]byte) // takes the client's result; nil is none
	stop    func() bool  // ends the watch over the question's context
}

// gatherQuestions is how long further questions are waited for when one has come: a
// server that asks several at once asks them in one round.
const gatherQuestions = 10 * time.Millisecond

var (
	errNotAnswered    = errors.New("the client did not answer in time")
	errSuspendedEnded = errors.New("the call has ended")
)

// suspend begins a call that may be suspended. begin runs it; its context outlives
// the request and ends with the gateway.
func (g *Gateway) suspend(x *Exchange, begin func(context.Context, *suspended) (mcp.Answer, error)) *suspended {
	p := &suspended{done: make(chan struct{}), fresh: make(chan struct{}, 1), open: make(map[string]*pendingRequest), now: x, client: x}
	life, cancel := context.WithCancelCause(g.life)
	p.cancel = cancel
	g.wg.Go(func() { // ends with the call
		defer close(p.done)
		defer cancel(errSuspendedEnded)
		defer func() {
			if r := recover(); r != nil {
				p.err = g.panicked(r)
			}
		}()
		p.answer, p.err = begin(life, p)
	})
	return p
}

// round serves one request of the client: it hands over the answers that the
// request brings and waits for the result, or for questions. When the request
// ends, so does the call.
func (p *suspended) round(ctx context.Context, x *Exchange, responses []byte) (mcp.Answer, error) {
	stop := context.AfterFunc(ctx, func() { p.cancel(context.Cause(ctx)) })
	defer stop()
	p.mu.Lock()
	p.now, p.client = x, x.client()
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.now = nil
		p.mu.Unlock()
	}()
	if left := p.answerPending(responses); left {
		signal(p.fresh) // what was left out is asked again
	}
	for {
		select {
		case <-p.done:
			return p.answer, p.err
		case <-p.fresh:
		}
		more := time.NewTimer(gatherQuestions)
		select {
		case <-p.done:
			more.Stop()
			return p.answer, p.err
		case <-more.C:
		}
		if result := p.questions(); result != nil && ctx.Err() == nil {
			return mcp.Answer{Result: result, Era: mcp.Modern}, nil
		}
	}
}

// answerPending gives the answers of a retry to the questions that wait and tells
// whether any is left. Answers to questions that nobody asked are ignored
// (2026-07-28 basic/patterns/mrtr, Error Handling).
func (p *suspended) answerPending(responses []byte) (left bool) {
	p.mu.Lock()
	answered := make(map[*pendingRequest][]byte)
	for m := range mcp.Members(responses) {
		key, err := mcp.Unquote(m.Key(responses))
		if err != nil {
			continue
		}
		if q := p.remove(key); q != nil {
			answered[q] = bytes.Clone(m.Value.Of(responses))
		}
	}
	left = len(p.open) > 0
	p.mu.Unlock()
	for q, answer := range answered {
		q.stop()
		q.answer(answer)
	}
	return left
}

// questions returns the input request of what is open, nil when nothing is.
func (p *suspended) questions() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) == 0 {
		return nil
	}
	out := []byte(`{"resultType":"input_required","inputRequests":{`)
	for i, key := range p.names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(mcp.AppendQuote(out, key), ':'), p.open[key].request...)
	}
	return append(out, "}}"...)
}

// requireWait puts a question to the client. answer is called once: with the client's
// result, or with nil when the context ends first.
func (p *suspended) ask(ctx context.Context, method string, params []byte, answer func([]byte)) {
	request := append([]byte(`{"method":`), mcp.Quote(method)...)
	if len(params) == 0 {
		params = []byte("{}") // some libraries cannot read a request without any
	}
	request = append(append(request, `,"params":`...), params...)
	p.mu.Lock()
	p.asked++
	key := "q" + strconv.Itoa(p.asked)
	p.open[key] = &pendingRequest{request: append(request, '}'), answer: answer, stop: context.AfterFunc(ctx, func() {
		p.mu.Lock()
		q := p.remove(key)
		p.mu.Unlock()
		if q != nil {
			q.answer(nil)
		}
	})}
	p.names = append(p.names, key)
	p.mu.Unlock()
	signal(p.fresh)
}

// remove forgets a question and returns it, nil when it is not open; mu is
// held. Who removes a question answers it.
func (p *suspended) remove(key string) *pendingRequest {
	q := p.open[key]
	if q != nil {
		delete(p.open, key)
		p.names = slices.DeleteFunc(p.names, func(name string) bool { return name == key })
	}
	return q
}

// currentRequest returns the request that the call serves, nil while the client is
// asked: what the server says then belongs to no request.
func (p *suspended) currentRequest() *Exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// exchanges returns who may be asked.
func (p *suspended) currentClient() *Exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client
}

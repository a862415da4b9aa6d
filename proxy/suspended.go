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
	"github.com/toolgate/toolgate/proxy/limit"
)

// suspended is a call of a modern client to a legacy server. Such a server sends
// requests while it works, but such a client answers only with another request of its
// own. So the call runs apart from the requests of its client. When the server asks,
// the client gets an input request and the call is suspended, without a permit, until
// the retry brings the answers.
//
// It ends with its call, when its round expires, when the request that it serves is
// cancelled, and with the gateway. It is never started a second time.
type suspended struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the server has answered
	answer mcp.Answer    // valid once done is closed
	err    error         // valid once done is closed

	fresh chan struct{} // capacity 1: a question was added or removed

	mu     sync.Mutex
	now    *Exchange // the request that is served; nil while the client is asked
	client *Exchange // the client of the latest request, without that request
	open   map[string]*pendingRequest
	names  []string // keys of open, in the order of the questions
	asked  int
	lent   int                // how many calls are made within it, for which its round gives up its permit
	permit *limit.Concurrency // of the server; nil until the permit was lent
}

// pendingRequest is a request of a legacy server that waits for its response.
type pendingRequest struct {
	request []byte       // an InputRequest, raw
	answer  func([]byte) // is given the client's result; nil for none
	stop    func() bool  // stops watching the context of the question
}

// gatherQuestions is how long a first question waits for others: questions that a
// server asks at once share one round.
const gatherQuestions = 10 * time.Millisecond

var (
	errNotAnswered    = errors.New("the client did not answer in time")
	errSuspendedEnded = errors.New("the call has ended")
)

// suspend starts a call that may be suspended. begin runs it. Its context outlives the
// request and ends with the gateway.
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

// round serves one request of the client. It hands over the answers in the request, and
// waits for the result or for questions. When the request ends, so does the call.
func (p *suspended) round(ctx context.Context, x *Exchange, responses []byte) (mcp.Answer, error) {
	stop := context.AfterFunc(ctx, func() { p.cancel(context.Cause(ctx)) })
	defer stop()
	p.mu.Lock()
	p.now, p.client = x, x.client()
	if p.lent > 0 {
		p.permit.Release(x.Identity.Key())
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.now = nil
		if p.lent > 0 {
			p.permit.Resume(x.Identity.Key())
		}
		p.mu.Unlock()
	}()
	if left := p.answerPending(responses); left {
		signal(p.fresh) // unanswered questions are asked again
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

// lend gives up the permit of the round that is served, while the call makes calls of others.
func (p *suspended) lend(permit *limit.Concurrency) (back func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lent++; p.lent == 1 && p.now != nil {
		permit.Release(p.now.Identity.Key())
	}
	p.permit = permit
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.lent--; p.lent == 0 && p.now != nil {
			permit.Resume(p.now.Identity.Key())
		}
	}
}

// answerPending hands the answers of a retry to the pending questions and reports
// whether any question is left. Answers to unknown questions are ignored (2026-07-28
// basic/patterns/mrtr, Error Handling).
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

// questions returns the input request with the open questions, nil when there are none.
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

// ask adds a question to the client. answer is called once: with the client's result,
// or with nil when ctx ends first.
func (p *suspended) ask(ctx context.Context, method string, params []byte, answer func([]byte)) {
	request := append([]byte(`{"method":`), mcp.Quote(method)...)
	if len(params) == 0 {
		params = []byte("{}") // some libraries cannot read a request without params
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

// remove takes a question out and returns it, nil when it is not open; mu is held. Who
// removes a question must answer it.
func (p *suspended) remove(key string) *pendingRequest {
	q := p.open[key]
	if q != nil {
		delete(p.open, key)
		p.names = slices.DeleteFunc(p.names, func(name string) bool { return name == key })
	}
	return q
}

// currentRequest returns the request that the call serves. It is nil while the client
// is asked: notifications belong to no request then.
func (p *suspended) currentRequest() *Exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// currentClient returns who may be asked.
func (p *suspended) currentClient() *Exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client
}

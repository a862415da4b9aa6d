package upstream

import (
	"context"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// questions are what the server asks during one call and is still open, by
// the key of the question's id.
type questions struct {
	mu    sync.Mutex
	open  map[string]context.CancelFunc
	bytes int            // of the questions that wait for their answers
	wg    sync.WaitGroup // of those who answer
}

// add opens a question. Its context ends with the call or when the server
// takes it back. It returns false for one question too many, by number or by
// most bytes in sum, and for an id that is open already.
func (q *questions) add(ctx context.Context, msg *mcp.Message, most int) (context.Context, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	id := msg.ID
	if len(q.open) >= asksPerCall || q.open[id.Key()] != nil {
		return nil, false
	}
	if len(q.open) > 0 && len(msg.Raw) > most-q.bytes {
		return nil, false
	}
	q.bytes += len(msg.Raw)
	if q.open == nil {
		q.open = make(map[string]context.CancelFunc)
	}
	ctx, cancel := context.WithCancel(ctx)
	q.open[id.Key()] = cancel
	return ctx, true
}

// close ends a question and tells whether its answer is still wanted.
func (q *questions) close(ctx context.Context, id mcp.ID, size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= size
	wanted := ctx.Err() == nil
	if cancel := q.open[id.Key()]; cancel != nil {
		cancel()
		delete(q.open, id.Key())
	}
	return wanted
}

// takeBack ends the question with an id, given raw, because the server does
// not wait for its answer any more.
func (q *questions) takeBack(raw []byte) {
	id, ok := mcp.ParseID(raw)
	q.mu.Lock()
	defer q.mu.Unlock()
	if cancel := q.open[id.Key()]; ok && cancel != nil {
		cancel()
	}
}

// sendAnswer sends the answer to a question. That is not under the context of
// the call, which may end with this very answer: a request that is cut off can
// take its connection along.
func (c *Conn) sendAnswer(raw []byte) {
	ctx, cancel := context.WithTimeout(c.life, cancelTime)
	defer cancel()
	if err := c.link.Send(ctx, raw, nil); err != nil {
		c.log.Debug("answer to the server's question not sent", "err", err)
	}
}

// declares tells whether a server was told that it may ask.
func (c *Conn) declares(method string) bool {
	switch method {
	case mcp.MethodSampling:
		return mcp.Lookup(c.declared, "sampling") != nil
	case mcp.MethodElicit:
		return mcp.Lookup(c.declared, "elicitation") != nil
	case mcp.MethodRoots:
		return mcp.Lookup(c.declared, "roots") != nil
	}
	return false
}

// receive takes what the link could not attribute to a request.
func (c *Conn) receive(msg mcp.Message) {
	switch {
	case msg.Method == mcp.NotifyCancelled && c.standalone.takeBack(msg.Param("requestId")):
	case msg.Kind == mcp.KindNotification:
		if c.settled.Load() { // before, its lists are not read and nobody subscribed
			c.inbox(c, msg)
		}
	case msg.Method == mcp.MethodPing:
		c.reply(mcp.AppendResult(nil, msg.ID, []byte("{}")))
	case c.askedBeside(msg):
	default:
		c.refuse(msg.ID, "%s cannot be attributed to one client's request, so it is not relayed", msg.Method)
	}
}

// askedBeside notes that the server asks where questions of all calls come, and
// tells whether the question found its call.
func (c *Conn) askedBeside(msg mcp.Message) bool {
	c.queue.asked()
	return c.standalone.ask(msg)
}

// ambiguous tells whether the server may ask where a question belongs to a call for
// certain only while that is the only one: on a channel that all calls share, or
// on a standalone stream of their session.
func (c *Conn) ambiguous() bool {
	if c.shared {
		return true
	}
	l, ok := c.link.(transport.Session)
	return ok && l.HasStream()
}

// refuse answers a question of the server with why nobody does; the method is
// cut, so that an answer in the queue is never large.
func (c *Conn) refuse(id mcp.ID, why, method string) {
	c.reply(mcp.AppendFault(nil, id, mcp.Errorf(mcp.CodeMethodNotFound, why, transport.Excerpt([]byte(method)))))
}

// reply queues an answer for the server. A server that asks faster than it
// reads gets no answers beyond the queue.
func (c *Conn) reply(raw []byte) {
	select {
	case c.answers <- raw:
	default:
		if !c.notReading.Swap(true) {
			c.log.Warn("the server asks faster than it reads; not all of its requests are answered")
		}
	}
}

// run sends queued answers until the link is lost.
func (c *Conn) run() {
	for {
		select {
		case raw := <-c.answers:
			ctx, cancel := context.WithTimeout(c.life, cancelTime)
			if err := c.link.Send(ctx, raw, nil); err != nil {
				c.log.Debug("answer to the server not sent", "err", err)
			}
			cancel()
		case <-c.link.Done():
			if c.gone != nil {
				c.gone()
			}
			return
		case <-c.life.Done():
			return
		}
	}
}

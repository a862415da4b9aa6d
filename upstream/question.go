package upstream

import (
	"context"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// questions are the open questions of the server during one call, by the key of their ids.
type questions struct {
	mu    sync.Mutex
	open  map[string]context.CancelFunc
	bytes int            // of the open questions
	over  bool           // the call has ended, and nothing is asked any more
	wg    sync.WaitGroup // of the questions that wait, and of the goroutines that answer
}

// add opens a question. Its context ends with the call or when the server cancels the
// question. It returns false if there are too many questions, by number or by bytes in sum
// (most), if the id is already open, and after the end of the call. An open question is done
// ([questions.wg]) when it is answered.
func (q *questions) add(ctx context.Context, msg *mcp.Message, most int) (context.Context, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	id := msg.ID
	if q.over || len(q.open) >= asksPerCall || q.open[id.Key()] != nil {
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
	q.wg.Add(1)
	return ctx, true
}

// end waits until all questions are answered. None is opened any more.
func (q *questions) end() {
	q.mu.Lock()
	q.over = true
	q.mu.Unlock()
	q.wg.Wait()
}

// close ends a question and tells whether the server still wants the answer.
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

// takeBack ends the question with a raw id because the server has cancelled it.
func (q *questions) takeBack(raw []byte) {
	id, ok := mcp.ParseID(raw)
	q.mu.Lock()
	defer q.mu.Unlock()
	if cancel := q.open[id.Key()]; ok && cancel != nil {
		cancel()
	}
}

// sendAnswer sends the answer to a question. It does not use the context of the call,
// which this answer may end: a request that is cut off can break its connection.
func (c *Conn) sendAnswer(raw []byte) {
	ctx, cancel := context.WithTimeout(c.life, cancelTime)
	defer cancel()
	if err := c.link.Send(ctx, raw, nil); err != nil {
		c.log.Debug("answer to the server's question not sent", "err", err)
	}
}

// declares tells whether the connection declares that the server may ask by a method.
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

// receive handles a message that the link could not attribute to a request.
func (c *Conn) receive(msg mcp.Message) {
	switch {
	case msg.Method == mcp.NotifyCancelled && c.standalone.takeBack(msg.Param("requestId")):
	case msg.Kind == mcp.KindNotification:
		if c.settled.Load() { // before that, no list was read and nobody has subscribed
			c.inbox(c, msg)
		}
	case msg.Method == mcp.MethodPing:
		c.reply(mcp.AppendResult(nil, msg.ID, []byte("{}")))
	case c.askedBeside(msg):
	default:
		c.refuse(msg.ID, "%s cannot be attributed to one client's request, so it is not relayed", msg.Method)
	}
}

// askedBeside handles a question that came outside of all requests, and tells whether it
// found its call.
func (c *Conn) askedBeside(msg mcp.Message) bool {
	c.queue.asked()
	return c.standalone.ask(msg)
}

// ambiguous tells whether questions of the server can come without their call: on a
// channel that all calls share, or on the standalone stream of a session. Then a question
// belongs to a call for certain only while no other runs.
func (c *Conn) ambiguous() bool {
	if c.shared {
		return true
	}
	l, ok := c.link.(transport.Session)
	return ok && l.HasStream()
}

// refuse answers a question with the reason why nobody answers it. The method is cut, so
// that the answer is small.
func (c *Conn) refuse(id mcp.ID, why, method string) {
	c.reply(mcp.AppendFault(nil, id, mcp.Errorf(mcp.CodeMethodNotFound, why, transport.Excerpt([]byte(method)))))
}

// reply queues an answer for the server. If the server asks faster than it reads, answers
// beyond the queue are dropped.
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

package upstream

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// inFlight is a call on a connection whose answer is awaited.
type inFlight struct {
	c     *Conn
	call  *mcp.Call
	ctx   cancel.Context // of the call
	clock callClock
	open  questions

	queued bool
	// suspended tells that the call waits for its client. Writers hold mu of the queue.
	suspended       atomic.Bool
	closed          cancel.Watch // over the life of the connection
	leaveStandalone func()       // removes the call from the standalone stream; nil if it is not there
}

// newInFlight starts the clock of a call. The caller ends it with end.
func newInFlight(ctx context.Context, c *Conn, call *mcp.Call) *inFlight {
	f := &inFlight{c: c, call: call}
	f.ctx.Begin(ctx)
	patience := cmp.Or(call.Timeout, c.spec.Timeouts.Call)
	idle := cmp.Or(call.Idle, c.spec.Timeouts.Idle, patience)
	f.clock.start(patience, idle, cmp.Or(call.Hard, c.spec.Timeouts.Hard), func() { f.ctx.Cancel(errCallTimeout) })
	return f
}

// begin waits for the turn of the call on a shared channel and registers it for the
// attribution of questions.
func (f *inFlight) begin(patient bool) error {
	c := f.c
	canAsk := c.era == mcp.Legacy && f.call.Kind != mcp.NoKind
	if canAsk && c.ambiguous() {
		if err := c.queue.enter(&f.ctx, f.call, c.link.Done(), patient); err != nil {
			return transport.Undelivered(cmp.Or(c.link.Cause(), err))
		}
		f.queued = true
		f.clock.restart()
	}
	if f.call.LogLevel != "" && c.era == mcp.Legacy {
		c.raiseLevel(&f.ctx, f.call.LogLevel)
	}
	if !c.shared { // a shared channel ends its requests itself
		f.closed.Over(c.life, func() { f.ctx.Cancel(transport.ErrClosed) })
		if canAsk {
			f.leaveStandalone = c.standalone.enter(f)
		}
	}
	return nil
}

// end ends the call. Nothing of it runs afterwards.
func (f *inFlight) end() {
	if f.leaveStandalone != nil {
		f.leaveStandalone()
	}
	f.ctx.Cancel(nil)
	f.open.end()
	f.closed.Stop()
	if f.queued {
		f.c.queue.leave(f)
	}
	f.clock.stop()
}

// answer sends the request and waits for its answer.
func (f *inFlight) answer(req *transport.Request) (mcp.Answer, error) {
	msg, err := f.c.link.RoundTrip(&f.ctx, req)
	if err != nil {
		if f.ctx.Err() != nil {
			f.c.withdraw(req.ID, err)
		}
		return mcp.Answer{}, err
	}
	return f.c.answer(&msg, req.Memory), nil
}

// arrived handles a message of the server that belongs to the call, except the answer.
func (f *inFlight) arrived(msg mcp.Message) {
	if msg.Kind == mcp.KindRequest {
		f.ask(msg)
		return
	}
	switch msg.Method {
	case mcp.NotifyProgress:
		f.clock.progress()
	case mcp.NotifyCancelled:
		f.takeBack(msg.Param("requestId"))
		return
	}
	if f.call.Notify != nil && ofCall(f.call, msg.Method) {
		f.call.Notify(msg.Method, msg.Params())
	} else if !ofCall(nil, msg.Method) {
		f.c.inbox(f.c, msg)
	}
}

// ofCall tells whether a notification belongs to the call that it came with and the call
// wants it. A nil call wants every method that can belong to a call.
func ofCall(call *mcp.Call, method string) bool {
	switch method {
	case mcp.NotifyProgress:
		return call == nil || call.Progress
	case mcp.NotifyMessage:
		return call == nil || call.LogLevel != ""
	}
	return false
}

// ask passes a question of the server to the client whose call caused it. It does not wait
// for the answer, so that progress is still reported.
func (f *inFlight) ask(msg mcp.Message) {
	c := f.c
	if msg.Method == mcp.MethodPing {
		c.reply(mcp.AppendResult(nil, msg.ID, []byte("{}")))
		return
	}
	c.queue.asks(f.call)
	if c.shared {
		c.queue.asked()
	}
	switch {
	case c.era == mcp.Modern:
		c.refuse(msg.ID, "a server asks by input_required since 2026-07-28, not by %s", msg.Method)
		return
	case !c.declares(msg.Method):
		c.refuse(msg.ID, "%s was not declared on this connection", msg.Method)
		return
	case f.call.Ask == nil:
		c.refuse(msg.ID, "nobody can answer %s on this connection", msg.Method)
		return
	}
	asking, ok := f.open.add(&f.ctx, &msg, int(c.spec.Limits.Result))
	if !ok {
		c.reply(mcp.AppendFault(nil, msg.ID, mcp.Errorf(mcp.CodeInternal,
			"more than %d open questions or %d bytes of them on one call, the same id twice, or a question after the end of the call", asksPerCall, c.spec.Limits.Result)))
		return
	}
	f.clock.pause()
	c.suspended.begin(f)
	c.free()                                 // waiting calls can now tell when the connection is given up
	blocks := c.shared || c.queue.of.asked() // it holds up other calls
	if blocks {
		c.queue.clientAsked(+1)
	}
	if f.queued {
		c.queue.suspend(f)
	}
	id, size := msg.ID, len(msg.Raw)
	f.open.wg.Go(func() { // its stack is free while the client thinks
		f.call.Ask(asking, msg.Method, msg.Params(), func(result []byte, fault *mcp.Error) {
			defer f.open.wg.Done()
			if blocks {
				c.queue.clientAsked(-1)
			}
			c.suspended.end(f)
			c.free()
			// After a call was given up, its server may still work until it gets an answer.
			if f.answered(asking, id, size) || errors.Is(context.Cause(&f.ctx), errGivenUp) {
				f.tell(id, result, fault)
			}
		})
	})
}

// answered ends the wait for the answer to a question. It tells whether the server still
// wants the answer: not if the call is over or the server has cancelled the question.
func (f *inFlight) answered(asking context.Context, id mcp.ID, size int) (wanted bool) {
	f.clock.resume()
	return f.open.close(asking, id, size)
}

// tell sends the answer of the client to the server.
func (f *inFlight) tell(id mcp.ID, result []byte, fault *mcp.Error) {
	var raw []byte
	if fault != nil {
		raw = mcp.AppendFault(nil, id, fault)
	} else {
		raw = mcp.AppendResult(nil, id, result)
	}
	f.open.wg.Go(func() {
		if f.queued {
			f.c.queue.resume(f)
		}
		f.c.sendAnswer(raw)
	})
}

// takeBack ends a question that the server has cancelled.
func (f *inFlight) takeBack(id []byte) { f.open.takeBack(id) }

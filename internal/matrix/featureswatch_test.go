//go:build e2e

package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/toolgate/toolgate/internal/mcp"
)

// subscription is one resource that a client watches.
type subscription struct {
	c         *cell
	own, uri  string   // at the server, and as the client knows it
	listening *request // of a modern client; else nil
}

// subscribe watches a resource of the cell; the name tells it from others.
func (c *cell) subscribe(ctx context.Context, name string) (*subscription, error) {
	own := watchPrefix + c.id + name
	s := &subscription{c: c, own: own, uri: string(mcp.Quote(c.to.uri(own)))}
	var err error
	if c.down.modern() {
		s.listening, err = c.listen(ctx, `{"resourceSubscriptions":[`+s.uri+`]}`)
	} else {
		_, err = c.good(c.client.do(ctx, mcp.MethodSubscribe, []byte(`{"uri":`+s.uri+`}`)))
	}
	return s, err
}

// updated waits for the news.
func (s *subscription) updated(ctx context.Context) error {
	return s.c.client.waitFor(ctx, "the update of "+s.uri, func() bool {
		notes := s.c.client.aside
		if s.listening != nil {
			notes = s.listening.notes
		}
		return slices.ContainsFunc(notes, func(note mcp.Message) bool {
			return note.Method == mcp.NotifyResourceUpdated && string(note.Param("uri")) == s.uri
		})
	})
}

// end gives the subscription up.
func (s *subscription) end(ctx context.Context) error {
	if s.listening != nil {
		return s.c.client.withdraw(s.listening)
	}
	_, err := s.c.good(s.c.client.do(ctx, mcp.MethodUnsubscribe, []byte(`{"uri":`+s.uri+`}`)))
	return err
}

func updates(ctx context.Context, c *cell) error {
	s, err := c.subscribe(ctx, "")
	if err != nil {
		return err
	}
	if _, err := c.await(ctx, "subscribed"); err != nil {
		return err
	}
	if _, err := c.call(ctx, "touch", `,"uri":"`+s.own+`"`); err != nil {
		return err
	}
	if err := errors.Join(s.updated(ctx), s.end(ctx)); err != nil {
		return err
	}
	_, err = c.await(ctx, "unsubscribed")
	return err
}

// unsettled watches a resource that changes at the very moment when the client
// subscribes to another one. The gateway may not lose the news because it has
// to make its own subscription anew.
func unsettled(ctx context.Context, c *cell) error {
	s, err := c.subscribe(ctx, "")
	if err != nil {
		return err
	}
	c.to.server.disturb(s.own, true)
	defer c.to.server.disturb(s.own, false)
	other, err := c.subscribe(ctx, "-other")
	if err != nil {
		return err
	}
	return errors.Join(s.updated(ctx), s.end(ctx), other.end(ctx))
}

// listen opens a subscription, which must be honoured in full.
func (c *cell) listen(ctx context.Context, filter string) (*request, error) {
	req, err := c.client.start(mcp.MethodListen, c.client.meta([]byte(`{"notifications":`+filter+`}`), ""))
	if err != nil {
		return nil, err
	}
	if err := c.client.waitFor(ctx, "the acknowledgement", func() bool { return len(req.notes) > 0 || req.answer != nil }); err != nil {
		return nil, err
	}
	c.client.mu.Lock()
	defer c.client.mu.Unlock()
	if req.answer != nil {
		return nil, fmt.Errorf("the subscription was refused: %s", req.answer.Raw)
	}
	return req, is("what is honoured", req.notes[0].Param("notifications"), filter)
}

// resumed breaks off the stream of a call and comes back for the rest.
func resumed(ctx context.Context, c *cell) error {
	l, ok := c.client.link.(*streamLink)
	if !ok {
		return errors.New("no link with streams")
	}
	params := mcp.SetMember(c.params("steps", ""), "_meta", []byte(`{"progressToken":"tok `+c.id+`"}`))
	req := c.client.newRequest(mcp.MethodToolsCall, params)
	req.hold, req.off = func() bool { return false }, make(chan struct{})
	if err := c.client.launch(req); err != nil {
		return err
	}
	select {
	case <-req.off:
	case <-ctx.Done():
		return errors.New("no event came")
	}
	c.say("go on", "")
	if err := l.resume(req); err != nil {
		return err
	}
	msg, err := c.client.wait(ctx, req)
	if err != nil {
		return err
	}
	return errors.Join(is("the result", []byte(said(msg.Result())), "done"), c.reported(req, 3))
}

// resuming calls a tool whose server breaks off the stream.
func resuming(ctx context.Context, c *cell) error {
	got, err := c.call(ctx, "resume", "")
	if err != nil {
		return err
	}
	return is("the result", []byte(said(got.result)), "resumed "+c.id)
}

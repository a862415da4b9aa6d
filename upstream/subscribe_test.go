package upstream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// While the last subscriber of a resource leaves, another one comes: the server is told of
// both in the right order.
func TestSubscribeTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, done := reapedServer(t, Spec{URL: "none", Timeouts: Timeouts{Call: time.Minute}})
		defer done()
		conn, link := s.add("ann")
		ended := make(chan error, 4)
		ask := func(ctx context.Context, uri string, on bool) {
			go func() {
				_, err := s.subscribe(ctx, conn, uri, on)
				ended <- err
			}()
			synctest.Wait()
		}
		s.subs.add(subscription{conn.key, "file:///a"}, +1)
		ask(t.Context(), "file:///a", false)
		leave := link.nextRequest(mcp.MethodUnsubscribe)
		ask(t.Context(), "file:///a", true)
		link.quiet() // it waits for its turn
		ask(t.Context(), "file:///b", true)
		link.say(jsonAnswer(link.nextRequest(mcp.MethodSubscribe), `{}`)) // not so another resource
		if err := <-ended; err != nil {
			t.Errorf("subscribe to another resource = %v", err)
		}
		link.say(jsonAnswer(leave, `{}`))
		if err := <-ended; err != nil {
			t.Errorf("unsubscribe = %v", err)
		}
		synctest.Wait()
		link.say(jsonAnswer(link.nextRequest(mcp.MethodSubscribe), `{}`))
		if err := <-ended; err != nil || s.subs.add(subscription{conn.key, "file:///a"}, 0) != 1 {
			t.Errorf("subscribe = %v, with %d subscribers", err, s.subs.add(subscription{conn.key, "file:///a"}, 0))
		}

		// Who waits for its turn waits no longer than a call, or than it wants.
		s.subs.add(subscription{conn.key, "file:///a"}, -1)
		ask(t.Context(), "file:///a", true) // never answered
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.Sleep(time.Second)
		ask(ctx, "file:///a", true)
		cancel(enough)
		if err := <-ended; !errors.Is(err, enough) || transport.Delivered(err) {
			t.Errorf("subscribe = %v", err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := <-ended; !errors.Is(err, errCallTimeout) {
			t.Errorf("subscribe = %v", err)
		}
		if len(s.subs.turns) != 0 {
			t.Errorf("%d turns are kept", len(s.subs.turns))
		}
	})
}

// A subscription that failed is tried again by the next subscriber.
func TestSubscribeAfterFailure(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Modern)
	r := run(t, f.spec())
	r.state(mcp.Ready)
	f.handle(mcp.MethodListen, func(x *exchange) { x.status(500, "", "") })
	if failure := r.fails(watchBy("ann", "file:///a")); failure.Kind != mcp.FailProtocol {
		t.Errorf("failure = %+v", failure)
	}
	f.handle(mcp.MethodListen, nil)
	before := len(f.requests(mcp.MethodListen))
	r.call(watchBy("ann", "file:///a"))
	asked := f.requests(mcp.MethodListen)[before:]
	if len(asked) == 0 || !strings.Contains(asked[len(asked)-1].Body, "file:///a") {
		t.Errorf("the server was asked %d times: %v", len(asked), asked)
	}
}

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

// watcher is a modern connection over a shared channel whose server announces
// list changes.
func watcher(t *testing.T) (*Conn, *memoryLink, chan struct{}, func()) {
	t.Helper()
	conn, l, done := memoryConn(t, Spec{}, mcp.Modern)
	conn.capabilities = []byte(`{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{}}`)
	broken := make(chan struct{}, 10)
	conn.watch.broken = func() { broken <- struct{}{} }
	return conn, l, broken, done
}

func listening(ctx context.Context, conn *Conn) <-chan error {
	c := make(chan error, 1)
	go func() { c <- conn.listen(ctx) }()
	return c
}

func onStream(id mcp.ID, method, more string) string {
	return `{"jsonrpc":"2.0","method":"` + method + `","params":{"_meta":{"` + mcp.MetaSubscriptionID + `":` + string(id) + `}` + more + `}}`
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, broken, done := watcher(t)
		var h heard
		conn.inbox = func(_ *Conn, msg mcp.Message) { h.notify(msg.Method, nil) }
		ready := listening(t.Context(), conn)
		msg := l.next()
		if msg.Method != mcp.MethodListen || string(msg.Param("notifications")) != `{"toolsListChanged":true}` || msg.Meta(mcp.MetaVersion) == nil {
			t.Fatalf("the gateway sent %s", msg.Raw)
		}
		synctest.Wait()
		select {
		case err := <-ready:
			t.Fatalf("listening before the acknowledgement: %v", err)
		default:
		}
		l.say(onStream(msg.ID, mcp.NotifyAcknowledged, `,"notifications":{}`))
		l.say(onStream(msg.ID, mcp.NotifyAcknowledged, `,"notifications":{}`)) // twice
		if err := <-ready; err != nil {
			t.Fatal(err)
		}
		if err := conn.listen(t.Context()); err != nil { // open already
			t.Fatal(err)
		}
		l.quiet()
		l.say(onStream(msg.ID, mcp.NotifyToolsChanged, ""))
		l.say(onStream("4711", mcp.NotifyToolsChanged, "")) // of no stream, and heard all the same
		synctest.Wait()
		if said := h.list(); strings.Join(said, "") != "tools/list_changed tools/list_changed " {
			t.Errorf("heard %q", said)
		}

		// The server tears the stream down, by cancellation and by an answer.
		l.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(msg.ID) + `}}`)
		<-broken
		ready = listening(t.Context(), conn)
		second := l.next()
		l.say(onStream(second.ID, mcp.NotifyAcknowledged, ""))
		if err := <-ready; err != nil {
			t.Fatal(err)
		}
		l.say(jsonAnswer(second.ID, `{"resultType":"complete"}`))
		<-broken

		// The gateway closes it: it says so, and it is not broken.
		ready = listening(t.Context(), conn)
		third := l.next()
		l.say(onStream(third.ID, mcp.NotifyAcknowledged, ""))
		if err := <-ready; err != nil {
			t.Fatal(err)
		}
		conn.capabilities = []byte(`{}`) // nothing to listen for any more
		if err := conn.listen(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.expect(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(third.ID) + `}}`)
		done()
		if len(broken) != 0 {
			t.Error("a stream that the gateway closed counts as broken")
		}
	})
}

func TestWatchNeverAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, _, done := watcher(t)
		defer done()
		began := time.Now()
		ready := listening(t.Context(), conn)
		id := l.nextRequest(mcp.MethodListen)
		if err := <-ready; !errors.Is(err, errCallTimeout) || time.Since(began) != ackTime {
			t.Errorf("listen = %v after %v", err, time.Since(began))
		}
		l.expect(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(id) + `}}`)

		// A caller that leaves, and the end of the connection.
		ctx, cancel := context.WithCancel(t.Context())
		ready = listening(ctx, conn)
		l.nextRequest(mcp.MethodListen)
		cancel()
		if err := <-ready; !errors.Is(err, context.Canceled) {
			t.Errorf("listen = %v", err)
		}
		l.next() // the cancellation
		ready = listening(t.Context(), conn)
		l.nextRequest(mcp.MethodListen)
		began = time.Now()
		done()
		if err := <-ready; err == nil || time.Since(began) != 0 {
			t.Errorf("listen = %v, %v after the end of its connection", err, time.Since(began))
		}
		if err := conn.listen(t.Context()); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("listen on a closed connection = %v", err)
		}
	})
}

// Log messages of a legacy server: asked for once per level, and only from a
// server that has them.
func TestLogLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		made := func(level string) {
			call := tool("echo", `{}`)
			call.LogLevel = level
			c := start(t.Context(), conn, call)
			for {
				msg := l.next()
				l.say(jsonAnswer(msg.ID, `{"of":"`+msg.Method+`"}`))
				if msg.Method == mcp.MethodToolsCall {
					break
				}
				if want := `{"level":"` + level + `"}`; msg.Method != mcp.MethodSetLevel || string(msg.Params()) != want {
					t.Errorf("the gateway sent %s, want %s", msg.Raw, want)
				}
			}
			succeeds(t, c, `{"of":"tools/call"}`)
		}
		set := func() int { return int(conn.ids.Load()) }
		made("debug") // no logging declared
		if set() != 1 {
			t.Errorf("%d requests, want the call alone", set())
		}
		conn.capabilities = []byte(`{"logging":{}}`)
		for _, step := range []struct {
			level    string
			requests int
		}{{"error", 2}, {"error", 1}, {"alert", 1}, {"debug", 2}, {"info", 1}, {"nonsense", 1}, {"", 1}} {
			before := set()
			made(step.level)
			if got := set() - before; got != step.requests {
				t.Errorf("level %q: %d requests, want %d", step.level, got, step.requests)
			}
		}

		// Its messages go to the only call that wants them.
		h := &heard{}
		call := tool("echo", `{}`)
		call.LogLevel, call.Notify = "debug", h.notify
		c := start(t.Context(), conn, call)
		id := l.nextRequest(mcp.MethodToolsCall)
		l.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":9007199254740993}}`)
		l.say(jsonAnswer(id, `{}`))
		succeeds(t, c, `{}`)
		if said := h.list(); len(said) != 1 || said[0] != `message {"level":"debug","data":9007199254740993}` {
			t.Errorf("heard %q", said)
		}
	})
}

// On a shared channel a stream ends before its successor begins. Resources of both may
// have changed in between, so they count as updated. New and removed ones do not.
func TestWatchGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, _, done := watcher(t)
		defer done()
		var missed []string
		conn.watch.missed = func(uris []string) { missed = append(missed, uris...) }
		steps := []struct {
			uri  string
			on   bool
			want string
		}{
			{"a:1", true, ""},
			{"a:2", true, "a:1"},
			{"a:3", true, "a:1 a:2"},
			{"a:2", false, "a:1 a:3"},
		}
		for i, step := range steps {
			missed = nil
			ended := make(chan error, 1)
			go func() {
				_, err := conn.Subscribe(t.Context(), step.uri, step.on)
				ended <- err
			}()
			if i > 0 {
				if msg := l.next(); msg.Method != mcp.NotifyCancelled {
					t.Fatalf("before the new stream the gateway sent %s", msg.Raw)
				}
			}
			l.say(onStream(l.nextRequest(mcp.MethodListen), mcp.NotifyAcknowledged, ""))
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(missed, " "); got != step.want {
				t.Errorf("step %d: %q count as updated, want %q", i, got, step.want)
			}
		}
	})
}

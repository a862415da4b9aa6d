package shared

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a process that the test plays. What it is sent waits in said.
type fake struct {
	*transport.Mux
	inbound func(mcp.Message)
	closed  chan struct{}
	stays   chan struct{} // Close waits for it; nil for nothing

	mu   sync.Mutex
	said []string
}

// RoundTrip implements transport.Link.
func (f *fake) RoundTrip(ctx context.Context, req *transport.Request) (mcp.Message, error) {
	return f.Mux.RoundTrip(ctx, req, func(raw []byte) error { return f.Send(ctx, raw, nil) })
}

// Send implements transport.Link.
func (f *fake) Send(_ context.Context, raw []byte, _ []transport.Field) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, string(raw))
	return nil
}

func (*fake) Negotiated(mcp.Version) {}
func (*fake) Ready()                 {}

// Close implements transport.Link.
func (f *fake) Close(context.Context) {
	if f.stays != nil {
		<-f.stays
	}
	f.Fail(transport.ErrClosed)
	close(f.closed)
}

// heard returns what it was sent since the last time.
func (f *fake) heard() string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	said := strings.Join(f.said, "\n")
	f.said = nil
	return said
}

// says has the process say something.
func (f *fake) says(t *testing.T, raw string) {
	t.Helper()
	msg, err := mcp.Parse([]byte(raw), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	f.Deliver(msg)
	synctest.Wait()
}

// processes are those that a host has started, in order.
type processes struct {
	*Host
	all []*fake
}

var limits = transport.Limits{Result: 1 << 20, Line: 1 << 20, Depth: 64, Events: 16}

// hosting returns a host with the server s.
func hosting(t *testing.T, claims Claims, once bool) (*processes, func()) {
	t.Helper()
	p := &processes{Host: NewHost(claims)}
	p.dial = func(_ context.Context, o *transport.Options, inbound func(mcp.Message)) (transport.Link, error) {
		f := &fake{Mux: transport.NewMux(o.Log, o.Limits, inbound), inbound: inbound, closed: make(chan struct{})}
		f.Several = o.Several
		p.all = append(p.all, f)
		return f, nil
	}
	return p, p.Offer("s", &transport.Options{Limits: limits, Log: slog.New(slog.DiscardHandler)}, once)
}

// user is a link and what it has got.
type user struct {
	*Link
	mu  sync.Mutex
	got []string
}

// join opens a link.
func (p *processes) join(t *testing.T) *user {
	t.Helper()
	u := &user{}
	l, err := p.Join(t.Context(), "s", true, func(m mcp.Message) { u.gets(string(m.Raw)) })
	if err != nil {
		t.Fatal(err)
	}
	u.Link = l
	t.Cleanup(func() { l.Close(context.Background()) })
	return u
}

func (u *user) gets(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.got = append(u.got, text)
}

// has returns what it has got since the last time.
func (u *user) has() string {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	got := strings.Join(u.got, "\n")
	u.got = nil
	return got
}

// asks sends a request and gets its messages and its answer, or the error.
func (u *user) asks(ctx context.Context, id, method, params string) {
	go func() { // ends with the answer, or with the link
		raw := mcp.AppendRequest(nil, mcp.ID(id), method, []byte(params))
		answer, err := u.RoundTrip(ctx, &transport.Request{ID: mcp.ID(id), Raw: raw, Arrived: func(m mcp.Message) { u.gets(string(m.Raw)) }})
		if err != nil {
			u.gets("error: " + err.Error())
			return
		}
		u.gets(string(answer.Raw))
	}()
	synctest.Wait()
}

func is(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

// Two links use the same ids and tokens. Each gets what is its own, byte for byte.
func TestIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := hosting(t, nil, false)
		a, b := p.join(t), p.join(t)
		a.asks(t.Context(), "1", "tools/call", `{"name":"x","_meta":{"progressToken":1,"k":[1.0]}}`)
		b.asks(t.Context(), `"1"`, "tools/call", `{"name":"y"}`)
		b.asks(t.Context(), "1", "tools/call", `{"name":"z","_meta":{"progressToken":"t"}}`)
		f := p.all[0]
		is(t, "the process is sent", f.heard(), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":1,"k":[1.0]}}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"y"}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"z","_meta":{"progressToken":3}}}`)
		f.says(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":1}}`)
		f.says(t, `{"jsonrpc":"2.0","id":3,"result":{"big": 12345678901234567890}}`)
		f.says(t, `{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"m", "data":1e2}}`)
		f.says(t, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		is(t, "b has", b.has(), `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}
{"jsonrpc":"2.0","id":1,"result":{"big": 12345678901234567890}}
{"jsonrpc":"2.0","id":"1","error":{"code":-1,"message":"m", "data":1e2}}`)
		is(t, "a has", a.has(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

// The process is initialized once, by the first link. A modern one is asked by each.
func TestInitializedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := hosting(t, nil, false)
		a, b := p.join(t), p.join(t)
		a.asks(t.Context(), "1", "initialize", `{"protocolVersion":"2025-11-25"}`)
		b.asks(t.Context(), "7", "initialize", `{"protocolVersion":"2025-11-25"}`) // waits
		f := p.all[0]
		is(t, "the process is sent", f.heard(), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
		f.says(t, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}`)
		is(t, "a has", a.has(), `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}`)
		is(t, "b has", b.has(), `{"jsonrpc":"2.0","id":7,"result":{"protocolVersion":"2025-06-18"}}`)
		for _, u := range []*user{a, b} {
			if err := u.Send(t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), nil); err != nil {
				t.Error(err)
			}
		}
		b.asks(t.Context(), "8", "server/discover", `{}`)
		is(t, "then", f.heard(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		is(t, "b has", b.has(), `{"jsonrpc":"2.0","id":8,"error":{"code":-32601,"message":"the server is of the legacy era"}}`)
	})
}

// A refused initialize is no answer for the others.
func TestInitializeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := hosting(t, nil, false)
		a, b := p.join(t), p.join(t)
		a.asks(t.Context(), "1", "initialize", `{}`)
		p.all[0].says(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no"}}`)
		b.asks(t.Context(), "1", "initialize", `{}`)
		p.all[0].says(t, `{"jsonrpc":"2.0","id":2,"result":{"a":1}}`)
		is(t, "b has", b.has(), `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`)
	})
}

// A link cancels its own requests alone, and with its end all that it has.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := hosting(t, nil, false)
		a, b := p.join(t), p.join(t)
		ctx, cancel := context.WithCancel(t.Context())
		a.asks(ctx, "1", "tools/call", `{}`)
		a.asks(t.Context(), "2", "tools/call", `{}`)
		b.asks(t.Context(), "1", "tools/call", `{}`)
		f := p.all[0]
		f.heard()
		cancel()
		for range 2 { // the second time nothing is left to cancel
			_ = a.Send(t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"r"}}`), nil)
		}
		_ = b.Send(t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`), nil) // it has none
		is(t, "the process hears", f.heard(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"r"}}`)
		a.Close(t.Context())
		is(t, "the process hears", f.heard(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		if got := a.has(); !strings.Contains(got, "closed") {
			t.Errorf("a has %s", got)
		}
		f.says(t, `{"jsonrpc":"2.0","id":3,"result":{}}`)
		is(t, "b has", b.has(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

// The process is asked for the first subscriber of a resource, and told of the last.
func TestSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := hosting(t, nil, false)
		a, b := p.join(t), p.join(t)
		f := p.all[0]
		const uri = `{"uri":"u"}`
		a.asks(t.Context(), "1", "resources/subscribe", uri)
		f.says(t, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		b.asks(t.Context(), "1", "resources/subscribe", uri)
		a.asks(t.Context(), "2", "resources/unsubscribe", uri)
		is(t, "the process is sent", f.heard(), `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"u"}}`)
		is(t, "b has", b.has(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		go b.Close(t.Context()) // waits for the answer of the process
		is(t, "with the last", f.heard(), `{"jsonrpc":"2.0","id":2,"method":"resources/unsubscribe","params":{"uri":"u"}}`)
		f.says(t, `{"jsonrpc":"2.0","id":2,"result":{}}`)
	})
}

// What the process says beside its answers is for all. Its questions are answered here.
func TestSaidToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := hosting(t, nil, false)
		a, b := p.join(t), p.join(t)
		f := p.all[0]
		a.asks(t.Context(), "5", "subscriptions/listen", `{}`)
		f.heard()
		f.says(t, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		is(t, "b has", b.has(), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		f.says(t, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u","_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`)
		is(t, "a has", a.has(), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u","_meta":{"io.modelcontextprotocol/subscriptionId":5}}}`)
		is(t, "b has", b.has(), "")
		f.says(t, `{"jsonrpc":"2.0","id":"q","method":"ping"}`)
		f.says(t, `{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{}}`)
		is(t, "the process hears", f.heard(), `{"jsonrpc":"2.0","id":"q","result":{}}
{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"several gateways share this server, so that sampling/createMessage is not relayed"}}`)
		is(t, "nobody is asked", a.has()+b.has(), "")
	})
}

// The first link starts the process and the last one ends it. A lost process takes its links
// along, and the next link starts another one.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, withdraw := hosting(t, nil, false)
		a, b := p.join(t), p.join(t)
		a.Close(t.Context())
		if p.Drain(expired(t)) != 1 {
			t.Error("no process runs, with a link left")
		}
		b.Close(t.Context())
		<-p.all[0].closed
		if n := p.Drain(t.Context()); n != 0 || len(p.all) != 1 {
			t.Errorf("%d of %d processes run", n, len(p.all))
		}
		c := p.join(t)
		why := errors.New("it crashed")
		p.all[1].Fail(why)
		<-c.Done()
		if err := c.Cause(); !errors.Is(err, why) {
			t.Errorf("the link was lost because %v", err)
		}
		d := p.join(t)
		if len(p.all) != 3 {
			t.Errorf("%d processes", len(p.all))
		}
		withdraw()
		<-d.Done()
		if err := d.Cause(); !errors.Is(err, transport.ErrMoved) {
			t.Errorf("a withdrawn server: %v", err)
		}
		if _, err := p.Join(t.Context(), "s", true, func(mcp.Message) {}); !errors.Is(err, ErrNotOffered) {
			t.Errorf("then: %v", err)
		}
	})
}

func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A process that ends while a link joins takes that link along.
func TestLostWhileJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := hosting(t, nil, false)
		a := p.join(t)
		p.all[0].Fail(errors.New("it crashed"))
		<-a.Done()
		of := p.offers["s"]
		of.turn <- struct{}{}
		l := p.Host.join(of, false, func(mcp.Message) {})
		<-of.turn
		<-l.Done()
		l.Close(t.Context())
	})
}

// A link that ends leaves its subscriptions in its turn: another one that subscribes meanwhile
// stays subscribed.
func TestSubscribedWhileAnotherLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := hosting(t, nil, false)
		a, b := p.join(t), p.join(t)
		f := p.all[0]
		a.asks(t.Context(), "1", "resources/subscribe", `{"uri":"u"}`)
		f.says(t, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		f.heard()
		go a.Close(t.Context())
		synctest.Wait()
		b.asks(t.Context(), "1", "resources/subscribe", `{"uri":"u"}`)
		is(t, "at first", f.heard(), `{"jsonrpc":"2.0","id":2,"method":"resources/unsubscribe","params":{"uri":"u"}}`)
		f.says(t, `{"jsonrpc":"2.0","id":2,"result":{}}`)
		is(t, "then", f.heard(), `{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"u"}}`)
		f.says(t, `{"jsonrpc":"2.0","id":3,"result":{}}`)
		is(t, "b has", b.has(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

// Links of many gateways join, ask and end at the same time. Each answer is that of its own
// request.
func TestManyLinks(t *testing.T) {
	p := &processes{Host: NewHost(nil)}
	p.dial = func(_ context.Context, o *transport.Options, inbound func(mcp.Message)) (transport.Link, error) {
		return &echo{fake{Mux: transport.NewMux(o.Log, o.Limits, inbound), closed: make(chan struct{})}}, nil
	}
	defer p.Offer("s", &transport.Options{Limits: limits, Log: slog.New(slog.DiscardHandler)}, false)()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for round := range 20 {
				l, err := p.Join(t.Context(), "s", true, func(mcp.Message) {})
				if err != nil {
					t.Error(err)
					return
				}
				for n := range 5 {
					params := fmt.Sprintf(`{"g":%d,"round":%d,"n":%d}`, g, round, n)
					id := mcp.NumberID(int64(n))
					answer, err := l.RoundTrip(t.Context(), &transport.Request{ID: id, Raw: mcp.AppendRequest(nil, id, "tools/call", []byte(params))})
					if err != nil || string(answer.Result()) != params || answer.ID != id {
						t.Errorf("%s: %s, %v", params, answer.Raw, err)
					}
				}
				l.Close(t.Context())
			}
		})
	}
	all.Wait()
	if n := p.Drain(t.Context()); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

// echo answers each request with its own params.
type echo struct{ fake }

// RoundTrip implements transport.Link.
func (e *echo) RoundTrip(ctx context.Context, req *transport.Request) (mcp.Message, error) {
	return e.Mux.RoundTrip(ctx, req, func(raw []byte) error {
		msg, err := mcp.Parse(raw, mcp.Limits{})
		if err != nil {
			return err
		}
		answer, err := mcp.Parse(mcp.AppendResult(nil, msg.ID, msg.Params()), mcp.Limits{})
		if err == nil {
			e.Deliver(answer)
		}
		return err
	})
}

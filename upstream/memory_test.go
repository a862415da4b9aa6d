package upstream

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// memoryLink is a shared channel to a server that the test plays itself, as
// stdio without a process.
type memoryLink struct {
	*transport.Mux
	t     *testing.T
	wrote chan string // what the gateway sent
}

func (l *memoryLink) RoundTrip(ctx context.Context, req *transport.Request) (mcp.Message, error) {
	return l.Mux.RoundTrip(ctx, req, func(raw []byte) error { return l.Send(ctx, raw, nil) })
}

func (l *memoryLink) Send(_ context.Context, raw []byte, _ []transport.Field) error {
	select {
	case l.wrote <- string(raw):
	default:
		l.t.Errorf("nobody reads %s", raw)
	}
	return nil
}

func (l *memoryLink) Negotiated(mcp.Version) {}
func (l *memoryLink) Ready()                 {}
func (l *memoryLink) Close(context.Context)  { l.Fail(transport.ErrClosed) }

// say is the server writing a line.
func (l *memoryLink) say(line string) {
	msg, err := mcp.Parse([]byte(line), mcp.Limits{LoneSurrogates: true})
	if err != nil {
		l.DeliverInvalid(msg, err)
		return
	}
	l.Deliver(msg)
}

// next returns the next message that the gateway sent.
func (l *memoryLink) next() mcp.Message {
	l.t.Helper()
	raw := receives(l.t, "a message of the gateway", l.wrote)
	msg, err := mcp.Parse([]byte(raw), mcp.Limits{})
	if err != nil {
		l.t.Fatalf("the gateway sent %s: %v", raw, err)
	}
	return msg
}

// nextRequest returns the next message and wants it to be a request.
func (l *memoryLink) nextRequest(method string) mcp.ID {
	l.t.Helper()
	msg := l.next()
	if msg.Kind != mcp.KindRequest || msg.Method != method {
		l.t.Fatalf("the gateway sent %s, want %s", msg.Raw, method)
	}
	return msg.ID
}

// expect wants the next message to be exactly raw.
func (l *memoryLink) expect(raw string) {
	l.t.Helper()
	if got := receives(l.t, "a message of the gateway", l.wrote); got != raw {
		l.t.Errorf("the gateway sent %s, want %s", got, raw)
	}
}

// quiet wants nothing to have been sent.
func (l *memoryLink) quiet() {
	l.t.Helper()
	select {
	case raw := <-l.wrote:
		l.t.Errorf("the gateway sent %s", raw)
	default:
	}
}

var quietLog = slog.New(slog.DiscardHandler)

// memoryConn returns a connection over a shared channel, its handshake done if
// the era is known. It is closed with the test, or by the function in a bubble.
func memoryConn(t *testing.T, spec Spec, era mcp.Era) (*Conn, *memoryLink, func()) {
	t.Helper()
	d := spec.withDefaults()
	conn := newConn(&d, quietLog, identity, true)
	conn.declared = []byte("{}")
	conn.inbox = func(*Conn, mcp.Message) {}
	conn.declared = []byte(`{"sampling":{},"elicitation":{},"roots":{}}`)
	l := &memoryLink{Mux: transport.NewMux(quietLog, d.Limits.ofLink(), conn.receive), t: t, wrote: make(chan string, 1000)}
	conn.link = l
	if era != mcp.EraUnknown {
		conn.era = era
		conn.settled.Store(true)
	}
	conn.spawn(conn.run)
	return conn, l, func() { conn.close(context.Background()) }
}

// outcome is how a call ended.
type outcome struct {
	answer mcp.Answer
	err    error
}

// start makes a call beside the test.
func start(ctx context.Context, conn *Conn, call *mcp.Call) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		answer, err := conn.Call(ctx, call, nil)
		c <- outcome{answer, err}
	}()
	return c
}

// succeeds wants a call to end with a result.
func succeeds(t *testing.T, c <-chan outcome, want string) {
	t.Helper()
	o := receives(t, "the end of a call", c)
	if o.err != nil || string(o.answer.Result) != want {
		t.Errorf("call = %s, %v; want %s", o.answer.Result, o.err, want)
	}
}

// question is a request of the server.
func question(id, method string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"q":1}}`
}

// asker records the questions that reach a client and answers them with the
// answer of the test.
type asker struct {
	asked  chan string
	answer func(ctx context.Context) ([]byte, *mcp.Error)
}

func newAsker() *asker {
	return &asker{asked: make(chan string, 100), answer: func(context.Context) ([]byte, *mcp.Error) {
		return []byte(`{"action":"accept"}`), nil
	}}
}

func (a *asker) ask(ctx context.Context, method string, params []byte) ([]byte, *mcp.Error) {
	a.asked <- method + " " + string(params)
	return a.answer(ctx)
}

// answering is [mcp.Call.Ask] for a client that thinks as long as answer does.
func answering(answer func(context.Context, string, []byte) ([]byte, *mcp.Error)) func(context.Context, string, []byte, func([]byte, *mcp.Error)) {
	return func(ctx context.Context, method string, params []byte, reply func([]byte, *mcp.Error)) {
		go func() { reply(answer(ctx, method, params)) }()
	}
}

// asking returns a call of a client that can be asked.
func asking(a *asker) *mcp.Call {
	call := tool("echo", `{}`)
	call.Ask = answering(a.ask)
	return call
}

// refusal is whether a message refuses a question because nobody can be asked.
func refusal(msg mcp.Message, id mcp.ID) bool {
	return msg.Kind == mcp.KindResponse && msg.ID == id && strings.Contains(string(msg.Fault()), "-32601")
}

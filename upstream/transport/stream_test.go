package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/toolgate/toolgate/internal/mcp"
)

// played is a link that the test plays.
type played struct {
	*Mux
	mu   sync.Mutex
	sent []string
}

func newPlayed(inbound func(mcp.Message)) *played {
	return &played{Mux: NewMux(slog.New(slog.DiscardHandler), Limits{Result: 1000, Line: 1000, Depth: 10, Events: 10}, inbound)}
}

// RoundTrip implements Link.
func (p *played) RoundTrip(ctx context.Context, req *Request) (mcp.Message, error) {
	return p.Mux.RoundTrip(ctx, req, func(raw []byte) error { return p.Send(ctx, raw, nil) })
}

// Send implements Link.
func (p *played) Send(_ context.Context, raw []byte, _ []Field) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, string(raw))
	return nil
}

func (*played) Negotiated(mcp.Version)  {}
func (*played) Ready()                  {}
func (p *played) Close(context.Context) { p.Fail(ErrClosed) }

func (p *played) has() string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := strings.Join(p.sent, "\n")
	p.sent = nil
	return sent
}

func (p *played) says(t *testing.T, raw string) {
	t.Helper()
	msg, err := mcp.Parse([]byte(raw), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p.Deliver(msg)
}

// far is the other side of a stream.
type far struct{ io.Writer }

func (far) Flush() error { return nil }

// Cut implements Far.
func (f far) Cut() {
	if c, ok := f.Writer.(io.Closer); ok {
		c.Close()
	}
}

// streamed is a stream whose far side is served.
type streamed struct {
	Link
	process *played
	served  chan error

	mu  sync.Mutex
	why error
	got []string
}

func newStreamed(t *testing.T) *streamed {
	t.Helper()
	there, back := io.Pipe()
	answer, from := io.Pipe()
	s := &streamed{served: make(chan error, 1)}
	joined := make(chan struct{})
	limits := Limits{Result: 1000, Line: 1000, Depth: 10, Events: 10}
	go func() {
		err := ServeStream(t.Context(), there, limits, func(inbound func(mcp.Message)) (Link, Far, error) {
			s.process = newPlayed(inbound)
			close(joined)
			return s.process, far{from}, nil
		})
		s.mu.Lock()
		s.why = err
		s.mu.Unlock()
		there.Close()
		from.Close()
		s.served <- err
	}()
	<-joined
	s.Link = NewStream(&Options{Log: slog.New(slog.DiscardHandler), Limits: limits}, Stream{
		In: answer, To: back, HangUp: func() { back.Close(); answer.Close() },
		Why: func() error { s.mu.Lock(); defer s.mu.Unlock(); return s.why },
	}, func(m mcp.Message) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, string(m.Raw))
	})
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// A stream carries requests, notifications, cancellations and answers as they are.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamed(t)
		answers := make(chan string, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ask := func(id, method string) {
			go func() { // ends with its answer, or with ctx
				var before strings.Builder
				answer, err := s.RoundTrip(ctx, &Request{
					ID: mcp.ID(id), Raw: mcp.AppendRequest(nil, mcp.ID(id), method, []byte(`{"_meta":{"progressToken":`+id+`}}`)),
					Arrived: func(m mcp.Message) { before.Write(m.Raw) },
				})
				if err != nil {
					answers <- err.Error()
					return
				}
				answers <- before.String() + string(answer.Raw)
			}()
			synctest.Wait()
		}
		ask("1", "tools/call")
		if got := s.process.has(); got != `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1}}}` {
			t.Errorf("the process is sent %s", got)
		}
		s.process.says(t, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		s.process.says(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
		synctest.Wait()
		s.process.says(t, `{"jsonrpc":"2.0","id":1,"result":{"a": 1}}`)
		if got := <-answers; got != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}{"jsonrpc":"2.0","id":1,"result":{"a": 1}}` {
			t.Errorf("the answer is %s", got)
		}
		ask("2", "tools/call")
		s.process.has()
		cancel()
		if got := <-answers; got != context.Canceled.Error() {
			t.Errorf("a cancelled request: %s", got)
		}
		if err := s.Send(t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`), nil); err != nil {
			t.Error(err)
		}
		if got := s.process.has(); got != `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}` {
			t.Errorf("the process hears %s", got)
		}
		s.mu.Lock()
		if got := strings.Join(s.got, "\n"); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
			t.Errorf("beside the answers: %s", got)
		}
		s.mu.Unlock()
		why := errors.New("the process ended: exit status 3")
		s.process.Fail(why)
		<-s.Done()
		if err := s.Cause(); !errors.Is(err, why) {
			t.Errorf("the stream was lost because %v", err)
		}
		if err := <-s.served; !errors.Is(err, why) {
			t.Errorf("the stream ended because of %v", err)
		}
	})
}

// A gateway that is gone says nothing; the next link leads elsewhere.
func TestStreamBroken(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	l := NewStream(&Options{Log: slog.New(slog.DiscardHandler), Limits: Limits{Result: 1000, Line: 100, Depth: 10, Events: 10}},
		Stream{In: near, To: near, HangUp: func() { near.Close() }, Why: func() error { return nil }}, func(mcp.Message) {})
	far.Close()
	<-l.Done()
	if err := l.Cause(); !errors.Is(err, ErrMoved) {
		t.Errorf("the cause is %v", err)
	}
	l.Close(t.Context())
}

// A process that is elsewhere needs no words: the end of the stream says so.
func TestStreamMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamed(t)
		s.process.Fail(ErrMoved)
		<-s.Done()
		if err := s.Cause(); !errors.Is(err, ErrMoved) {
			t.Errorf("the cause is %v", err)
		}
		if err := <-s.served; err != nil {
			t.Errorf("the stream ended because of %v", err)
		}
	})
}

// A gateway that stops reading holds a stream for no longer than streamSend.
func TestStreamNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, far1 := io.Pipe()
		defer far1.Close()
		_, out := io.Pipe() // nobody reads
		var process *played
		joined, served := make(chan struct{}), make(chan error, 1)
		go func() {
			served <- ServeStream(t.Context(), in, Limits{Result: 1000, Line: 1000, Depth: 10, Events: 10}, func(inbound func(mcp.Message)) (Link, Far, error) {
				process = newPlayed(inbound)
				close(joined)
				return process, far{out}, nil
			})
			in.Close()
		}()
		<-joined
		const said = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		process.says(t, said)
		synctest.Wait() // the writer has taken what waits, and takes nothing more
		for range 3 * streamRequests {
			process.says(t, said)
		}
		if err := <-served; err == nil || !strings.Contains(err.Error(), "slower") {
			t.Errorf("the stream ended because of %v", err)
		}
	})
}

// A request beyond the limit is refused by itself.
func TestStreamFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamed(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ask := func(n int64) (mcp.Message, error) {
			id := mcp.NumberID(n)
			return s.RoundTrip(ctx, &Request{ID: id, Raw: mcp.AppendRequest(nil, id, "tools/call", []byte(`{}`))})
		}
		var all sync.WaitGroup
		for n := range int64(streamRequests) {
			all.Go(func() { _, _ = ask(n) }) // ends with ctx
		}
		synctest.Wait()
		answer, err := ask(streamRequests)
		if err != nil || !strings.Contains(string(answer.Fault()), "takes no more") {
			t.Errorf("the answer is %s, %v", answer.Raw, err)
		}
		if s.Cause() != nil {
			t.Errorf("the stream ended because of %v", s.Cause())
		}
		cancel()
		all.Wait()
	})
}

// Whatever a gateway sends on a stream, it ends with the stream, and nothing else does.
func FuzzServeStream(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
	f.Add(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n")
	f.Add(`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n[]\nnoise\n")
	f.Fuzz(func(t *testing.T, sent string) {
		var out bytes.Buffer
		err := ServeStream(t.Context(), strings.NewReader(sent), Limits{Result: 1000, Line: 1000, Depth: 10, Events: 10},
			func(inbound func(mcp.Message)) (Link, Far, error) {
				return newPlayed(inbound), far{&out}, nil
			})
		if err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Errorf("an error without words: %v", err)
		}
		for line := range strings.Lines(out.String()) {
			if _, err := mcp.Parse([]byte(line), mcp.Limits{}); err != nil {
				t.Errorf("it answers %q: %v", line, err)
			}
		}
	})
}

package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// sized returns a notification of progress of exactly so many bytes.
func sized(id mcp.ID, size int) string {
	head := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(id) + `,"message":"`
	return head + strings.Repeat("x", size-len(head)-len(`"}}`)) + `"}}`
}

// The messages that wait for a call are bounded in bytes, without the one that is being
// handled. An empty queue takes a message of any size.
func TestMuxFloodBytes(t *testing.T) {
	const most = 1000
	tests := []struct {
		name  string
		sizes []int // after the one in work
		heard int   // of them
	}{
		{"to the byte", []int{400, 400, 200}, 3},
		{"one byte too many", []int{400, 400, 201}, 2},
		{"a smaller one still fits", []int{400, 400, 300, 200}, 3},
		{"a large one alone", []int{5000}, 1},
		{"a large one and a small one", []int{5000, 200}, 1},
		{"a small one and a large one", []int{200, 5000, 800}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, l, done := memoryConn(t, Spec{Limits: Limits{ServerLimits: ServerLimits{Result: most}}}, mcp.Legacy)
				defer done()
				book := &logBook{}
				l.Log = slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
				block := make(chan struct{})
				var got []int
				call := tool("echo", `{}`)
				call.Progress = true
				call.Notify = func(_ string, params []byte) {
					<-block
					got = append(got, len(params))
				}
				c := start(t.Context(), conn, call)
				id := l.nextRequest(mcp.MethodToolsCall)
				for range 2 { // what was taken off makes room again
					l.say(sized(id, 900))
					synctest.Wait()
					for _, size := range tt.sizes {
						l.say(sized(id, size))
					}
					for range 1 + tt.heard {
						block <- struct{}{}
					}
					synctest.Wait()
				}
				l.say(jsonAnswer(id, `{}`))
				succeeds(t, c, `{}`)
				if len(got) != 2*(1+tt.heard) {
					t.Errorf("%d notifications of the sizes %v, want %d", len(got), got, 2*(1+tt.heard))
				}
				dropped := 2 * (len(tt.sizes) - tt.heard)
				if n := book.count("notifies faster"); n != dropped || book.count("level=WARN") != min(1, dropped) {
					t.Errorf("%d lines, %d of them warnings, for %d that were dropped", n, book.count("level=WARN"), dropped)
				}
			})
		})
	}
}

// A flood that never ends does not keep a call beyond its deadline.
func TestMuxFloodDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{}, mcp.Legacy)
		defer done()
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		n := 0
		call := tool("echo", `{}`)
		call.Progress = true
		var id mcp.ID
		call.Notify = func(string, []byte) {
			if n++; n == 100 {
				cancel(enough)
			}
			if n < 10_000 {
				l.say(sized(id, 300)) // another one as soon as one was heard
			}
		}
		c := start(ctx, conn, call)
		id = l.nextRequest(mcp.MethodToolsCall)
		l.say(sized(id, 300))
		if o := <-c; !errors.Is(o.err, enough) || n != 100 {
			t.Errorf("call = %v after %d notifications", o.err, n)
		}
	})
}

// The operator hears of dropped notifications once per connection, with the
// server's key.
func TestDropIsLogged(t *testing.T) {
	t.Parallel()
	spec := childServer("hostile", mcp.Legacy)
	spec.Limits.Events = 5
	r := run(t, spec)
	r.state(mcp.Degraded)
	for range 2 {
		entered := false
		call := tool("flood", `{}`)
		call.Progress = true
		call.Notify = func(string, []byte) {
			if !entered {
				entered = true
				testwait.Until(t, patience, "a dropped notification", func() bool { return r.log.count("notifies faster") > 0 })
			}
		}
		r.call(call)
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	warnings := 0
	for _, line := range r.log.lines {
		if strings.Contains(line, "notifies faster") && strings.Contains(line, "level=WARN") {
			warnings++
			if !strings.Contains(line, "server=srv") {
				t.Errorf("no key in %s", line)
			}
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings, want 1", warnings)
	}
}

// The open questions of a call are bounded in bytes. Answers that wait for the server are
// small, whatever it asked.
func TestQuestionBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, l, done := memoryConn(t, Spec{Limits: Limits{ServerLimits: ServerLimits{Result: 10_000}}}, mcp.Legacy)
		defer done()
		ask := func(id string, size int) {
			l.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + mcp.MethodElicit + `","params":{"q":"` + strings.Repeat("q", size) + `"}}`)
			synctest.Wait()
		}
		a := newAsker()
		answer := make(chan struct{})
		a.answer = func(context.Context) ([]byte, *mcp.Error) {
			<-answer
			return []byte(`{}`), nil
		}
		call := start(t.Context(), conn, asking(a))
		id := l.nextRequest(mcp.MethodToolsCall)
		ask("1", 6000)
		ask("2", 6000)
		ask("3", 2000)
		if len(a.asked) != 2 {
			t.Errorf("%d questions reached the client, want 2", len(a.asked))
		}
		if msg := l.next(); msg.ID != "2" || msg.Fault() == nil {
			t.Errorf("the gateway said %s", msg.Raw)
		}
		answer <- struct{}{}
		answer <- struct{}{}
		synctest.Wait()
		l.next()
		l.next()
		ask("6", 6000)
		ask("7", 2000)
		if len(a.asked) != 4 {
			t.Errorf("%d questions reached the client, want 4", len(a.asked))
		}
		answer <- struct{}{}
		answer <- struct{}{}
		synctest.Wait()
		l.next()
		l.next()
		ask("4", 20_000) // alone
		if len(a.asked) != 5 {
			t.Errorf("%d questions reached the client, want 5", len(a.asked))
		}
		answer <- struct{}{}
		synctest.Wait()
		l.next()
		l.say(`{"jsonrpc":"2.0","id":5,"method":"` + strings.Repeat("m", 9000) + `"}`)
		synctest.Wait()
		if msg := l.next(); msg.ID != "5" || msg.Fault() == nil || len(msg.Raw) > 500 {
			t.Errorf("the gateway said %d bytes: %.200s", len(msg.Raw), msg.Raw)
		}
		l.say(jsonAnswer(id, `{}`))
		succeeds(t, call, `{}`)
	})
}

// Events beyond the limit, on the streams of a POST and of HTTP+SSE. Such an event ends
// only the call that it answers.
func TestLargeEvents(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	pad := strings.Repeat("x", 3*limit)
	answer := func(id mcp.ID) string {
		return `{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"x":"` + pad + `"}}`
	}
	tests := []struct {
		name   string
		events func(id mcp.ID) []string // before the answer
		lost   string                   // how many of the transports give the call up: "" none, "both", "post"
	}{
		{"the answer", func(id mcp.ID) []string { return []string{answer(id)} }, "both"},
		{"another answer", func(mcp.ID) []string { return []string{answer("77777")} }, ""},
		{"a notification", func(mcp.ID) []string {
			return []string{`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + pad + `"}}`}
		}, ""},
		{"a question", func(id mcp.ID) []string {
			return []string{`{"jsonrpc":"2.0","id":` + string(id) + `,"method":"elicitation/create","params":{"x":"` + pad + `"}}`}
		}, ""},
		{"several", func(mcp.ID) []string { return []string{answer("77777"), answer("77778"), answer("77779")} }, ""},
		{"who knows what", func(id mcp.ID) []string {
			return []string{`{"jsonrpc":"2.0","result":{"x":"` + pad + `"},"id":` + string(id) + `}`}
		}, "post"},
	}
	for _, transport := range []Transport{Streamable, SSE} {
		t.Run(string(transport), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Legacy)
			streams := make(chan *exchange, 10)
			if transport == SSE {
				f.oldSSE(nil)
				get := f.on[http.MethodGet]
				f.handle(http.MethodGet, func(x *exchange) {
					streams <- x
					get(x)
				})
			}
			f.handle(mcp.MethodToolsCall, func(x *exchange) {
				stream := x
				if transport == SSE {
					x.w.WriteHeader(http.StatusAccepted)
					x.flush()
					stream = <-streams
					defer func() { streams <- stream }()
				}
				name, _ := mcp.LookupString(x.msg.Params(), "name")
				for _, tt := range tests {
					if tt.name == name {
						for _, ev := range tt.events(x.msg.ID) {
							stream.event(ev)
						}
					}
				}
				stream.event(jsonAnswer(x.msg.ID, `{"sound":true}`))
			})
			spec := f.spec()
			spec.Transport = transport
			spec.Limits.Result = limit
			r := run(t, spec)
			r.state(mcp.Ready)
			for _, tt := range tests {
				answer, err := r.Call(within(t), tool(tt.name, `{}`))
				failure, _ := errors.AsType[*mcp.Failure](err)
				if tt.lost == "both" || tt.lost == "post" && transport == Streamable {
					if failure == nil || failure.Kind != mcp.FailTooLarge || !failure.Delivered {
						t.Errorf("%s: %s, %v", tt.name, answer.Result, err)
					}
				} else if err != nil || string(answer.Result) != `{"sound":true}` {
					t.Errorf("%s: %s, %v", tt.name, answer.Result, err)
				}
			}
			if transport == SSE {
				receives(t, "the stream", streams) // nothing writes to it any more
			}
			if n := len(f.requests(mcp.MethodInitialize)); n != 1 {
				t.Errorf("%d handshakes: the connection was given up", n)
			}
		})
	}
}

// An event beyond the limit on the standalone stream is lost, and nothing else is.
func TestLargeEventStandalone(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.handle(http.MethodGet, func(x *exchange) {
		x.block("id: 1", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"`+strings.Repeat("x", 1<<20)+`"}}`)
		x.block("id: 2", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"n":2}}`)
		x.hold()
	})
	spec := f.spec()
	spec.Limits.Result = 100_000
	r := run(t, spec)
	testwait.Until(t, patience, "the message", func() bool { return len(r.sink.said()) == 1 })
	if n := len(f.requests(http.MethodGet)); n != 1 {
		t.Errorf("the stream was opened %d times", n)
	}
}

// A process that cannot start always gives the same reason, whatever is seen first: its
// exit, the end of its output, or that nobody reads its input.
func TestExitTextIsStable(t *testing.T) {
	t.Parallel()
	wide := []byte(`{"name":"` + strings.Repeat("w", 256<<10) + `"}`) // more than a pipe holds
	for _, tt := range []struct {
		script string
		era    mcp.Era
		whoami []byte
	}{
		{"dies", mcp.Legacy, identity},
		{"dies", mcp.EraUnknown, identity},
		{"dies", mcp.Legacy, wide},
		{"shuts", mcp.Legacy, wide},
	} {
		texts := make(map[string]int)
		for range 10 {
			s := New(childServer(tt.script, tt.era), Options{
				Sink: &sink{}, Credential: NewStatic(nil), Logger: quietLog, Identity: tt.whoami,
			})
			_, err := s.open(t.Context(), connKey{})
			exit, ok := errors.AsType[*child.ExitError](err)
			if !ok {
				t.Fatalf("open = %v", err)
			}
			exit.After = 0 // on a busy machine
			texts[describe(err)]++
			if got := fmt.Sprint(s.Stderr()); got != "[no licence found]" {
				t.Errorf("stderr = %s", got)
			}
		}
		want := fmt.Sprintf("the process ended: %s exited with code 4 within a second; it said on stderr: no licence found", os.Args[0])
		if len(texts) != 1 || texts[want] == 0 {
			t.Errorf("%s says %v, want always %q", tt.script, texts, want)
		}
	}
}

// An event id that cannot be sent in a header is not sent. The stream is opened again
// without it.
func TestResumeBehindBadID(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"control characters": "a\x01b", "long": strings.Repeat("x", 100_000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Legacy)
			f.handle(http.MethodGet, func(x *exchange) {
				if last := x.r.Header.Get("Last-Event-Id"); last != "" {
					t.Errorf("resumed behind %.20q", last)
				}
				x.block("id: "+id, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"n":1}}`)
			})
			r := run(t, f.spec())
			testwait.Until(t, patience, "the third stream", func() bool { return len(r.sink.said()) >= 3 })
		})
	}
}

// The reason that a failing server gives is shown as one bounded line without control
// characters.
func TestReasonIsPrintable(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.handle(mcp.MethodInitialize, func(x *exchange) {
		x.fault(http.StatusOK, -32000, "\x1b[2J\x1b]0;owned\x07first\nsecond\u202e\u0000"+strings.Repeat("y", 1<<20))
	})
	r := run(t, f.spec())
	reason := r.state(mcp.Failed)
	if len(reason) > maxReason+10 || strings.ContainsAny(reason, "\x1b\x07\n\x00\u202e") || !strings.Contains(reason, "first second") {
		t.Errorf("%d bytes: %.300q", len(reason), reason)
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	for _, line := range r.log.lines {
		if strings.Contains(line, "not connected") && len(line) > 3*maxReason {
			t.Errorf("a log line of %d bytes", len(line))
		}
	}
}

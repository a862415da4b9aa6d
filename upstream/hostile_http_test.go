package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// How an HTTP server can answer one call, and what the caller gets. No other call is
// affected.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer func(*exchange)
		kind   mcp.FailureKind // or a result
		says   string
	}{
		{"no JSON", func(x *exchange) { x.answer(`{"jsonrpc":"2.0","id":`) }, mcp.FailProtocol, "an invalid answer"},
		{"nothing", func(x *exchange) { x.status(200, "application/json", "") }, mcp.FailProtocol, "an invalid answer"},
		{"duplicate keys", func(x *exchange) { x.answer(`{"jsonrpc":"2.0","id":` + string(x.msg.ID) + `,"result":{"a":1,"a":1}}`) }, mcp.FailProtocol, "an invalid answer"},
		{"trailing data", func(x *exchange) { x.answer(jsonAnswer(x.msg.ID, `{}`) + jsonAnswer(x.msg.ID, `{}`)) }, mcp.FailProtocol, "an invalid answer"},
		{"another id", func(x *exchange) { x.answer(jsonAnswer("77777", `{}`)) }, mcp.FailProtocol, "an answer to another request"},
		{"the id as a string", func(x *exchange) { x.answer(jsonAnswer(mcp.StringID(string(x.msg.ID)), `{}`)) }, mcp.FailProtocol, "an answer to another request"},
		{"a request for an answer", func(x *exchange) { x.answer(question(string(x.msg.ID), "ping")) }, mcp.FailProtocol, "an answer to another request"},
		{"a batch", func(x *exchange) { x.answer(`[` + jsonAnswer(x.msg.ID, `{}`) + `]`) }, mcp.FailProtocol, "an invalid answer"},
		{"no content type", func(x *exchange) {
			x.w.Header()["Content-Type"] = nil
			x.status(200, "", jsonAnswer(x.msg.ID, `{}`))
		}, mcp.FailProtocol, "without a content type"},
		{"HTML", func(x *exchange) { x.status(200, "text/html; charset=utf-8", "<html>") }, mcp.FailProtocol, `content type "text/html; charset=utf-8"`},
		{"a parameter of the content type", func(x *exchange) {
			x.status(200, "Application/JSON; charset=utf-8", jsonAnswer(x.msg.ID, `{"ok":1}`))
		}, "", `{"ok":1}`},
		{"accepted", func(x *exchange) { x.status(202, "", "") }, mcp.FailProtocol, "without an answer"},
		{"no content", func(x *exchange) { x.status(204, "", "") }, mcp.FailProtocol, "without a content type"},
		{"a byte order mark", func(x *exchange) { x.answer("\xef\xbb\xbf" + jsonAnswer(x.msg.ID, `{"ok":1}`)) }, "", `{"ok":1}`},
		{"a log line on the stream", func(x *exchange) {
			x.event(`{"level":"info","id":` + string(x.msg.ID) + `,"msg":"handling request"}`)
			x.event(jsonAnswer(x.msg.ID, `{"ok":1}`))
		}, "", `{"ok":1}`},
		{"an empty stream", func(x *exchange) { x.open() }, mcp.FailProtocol, "without an answer"},
		{"a stream for others", func(x *exchange) {
			x.event(jsonAnswer("77777", `{}`))
			x.event(`{"jsonrpc":"2.0"}`)
			x.event("rubbish")
			x.block("event: endpoint", "data: /elsewhere")
			x.event(jsonAnswer(x.msg.ID, `{"mine":1}`))
			x.event(jsonAnswer(x.msg.ID, `{"again":1}`))
		}, "", `{"mine":1}`},
		{"an invalid answer on a stream that stays", func(x *exchange) {
			x.event(`{"jsonrpc":"2.0","id":` + string(x.msg.ID) + `,"result":{"a":1,"a":2}}`)
			x.hold()
		}, mcp.FailProtocol, "an invalid answer"},
		{"no JSON on a stream that stays", func(x *exchange) {
			x.event(`{"jsonrpc":"2.0","id":` + string(x.msg.ID) + `,"result":{"a":}}`)
			x.hold()
		}, mcp.FailProtocol, "an invalid answer"},
		{"an answer on a stream that stays", func(x *exchange) {
			x.event(jsonAnswer(x.msg.ID, `{"ok":1}`))
			x.hold()
		}, "", `{"ok":1}`},
		{"a cut stream", func(x *exchange) {
			x.block(": priming")
			x.cut()
		}, mcp.FailUnavailable, "unexpected EOF"},
		{"a cut body", func(x *exchange) {
			x.w.Header().Set("Content-Length", "1000")
			x.status(200, "application/json", `{"jsonrpc":`)
			x.flush()
			x.cut()
		}, mcp.FailUnavailable, "unexpected EOF"},
		{"no answer at all", func(x *exchange) { x.cut() }, mcp.FailUnavailable, "EOF"},
		{"too large, announced", func(x *exchange) {
			x.w.Header().Set("Content-Length", "2000000")
			x.status(200, "application/json", `{"jsonrpc":`)
		}, mcp.FailTooLarge, "larger than the limit"},
		{"too large, not announced", func(x *exchange) {
			x.w.Header().Set("Content-Type", "application/json")
			x.flush()
			_, _ = x.w.Write([]byte(jsonAnswer(x.msg.ID, `{"x":"`+strings.Repeat("x", 2<<20)+`"}`)))
		}, mcp.FailTooLarge, "larger than the limit"},
		{"too large an event", func(x *exchange) {
			x.event(jsonAnswer(x.msg.ID, `{"x":"`+strings.Repeat("x", 2<<20)+`"}`))
		}, mcp.FailTooLarge, "larger than the limit"},
		{"huge headers", func(x *exchange) {
			x.w.Header().Set("X-Huge", strings.Repeat("h", 1<<20))
			x.result(`{}`)
		}, mcp.FailUnavailable, "headers exceeded"},
		{"compressed", func(x *exchange) {
			x.w.Header().Set("Content-Encoding", "gzip")
			x.status(200, "application/json", "\x1f\x8b\x08\x00\x00\x00\x00\x00")
		}, mcp.FailProtocol, "an invalid answer"},
		{"500", func(x *exchange) { x.status(500, "text/html", "<b>\x1b[31moops</b>") }, mcp.FailProtocol, "Internal Server Error: <b> [31moops</b>"},
		{"502", func(x *exchange) { x.status(502, "", "") }, mcp.FailProtocol, "Bad Gateway"},
		{"503", func(x *exchange) { x.status(503, "", "") }, mcp.FailProtocol, "Service Unavailable"},
		{"418", func(x *exchange) { x.status(418, "", "") }, mcp.FailProtocol, "I'm a teapot"},
		{"an unknown status", func(x *exchange) { x.status(799, "", "") }, mcp.FailProtocol, "an unknown HTTP status"},
		{"a fault with 500", func(x *exchange) { x.fault(500, -32603, "inner") }, "", ""},
		{"silence", func(x *exchange) { x.hold() }, mcp.FailTimeout, "no answer within the deadline"},
		{"a slow body", func(x *exchange) {
			x.w.Header().Set("Content-Type", "application/json")
			for {
				_, _ = x.w.Write([]byte(" "))
				x.flush()
				select {
				case <-x.r.Context().Done():
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		}, mcp.FailTimeout, "no answer within the deadline"},
		{"comments for ever", func(x *exchange) {
			for {
				x.block(": still here")
				select {
				case <-x.r.Context().Done():
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		}, mcp.FailTimeout, "no answer within the deadline"},
		{"an announced body that never comes", func(x *exchange) {
			x.w.Header().Set("Content-Length", "100")
			x.w.Header().Set("Content-Type", "application/json")
			x.w.WriteHeader(200)
			x.flush()
			x.hold()
		}, mcp.FailTimeout, "no answer within the deadline"},
	}
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, era)
			f.handle(mcp.MethodToolsCall, func(x *exchange) {
				name, _ := mcp.LookupString(x.msg.Params(), "name")
				for _, tt := range tests {
					if tt.name == name {
						tt.answer(x)
						return
					}
				}
				x.echo()
			})
			spec := f.spec()
			spec.Limits.Result = 1 << 20
			r := run(t, spec)
			r.state(mcp.Ready)
			r.call(tool("echo", `{}`))
			var all sync.WaitGroup
			for _, tt := range tests {
				all.Go(func() {
					call := tool(tt.name, `{}`)
					if tt.kind == mcp.FailTimeout {
						call.Timeout = 300 * time.Millisecond
					}
					answer, err := r.Call(within(t), call)
					failure, _ := errors.AsType[*mcp.Failure](err)
					switch {
					case tt.name == "a fault with 500":
						if err != nil || answer.Fault == nil || answer.Fault.Message != "inner" {
							t.Errorf("%s: %+v, %v", tt.name, answer, err)
						}
					case tt.kind == "":
						if err != nil || string(answer.Result) != tt.says {
							t.Errorf("%s: %s, %v", tt.name, answer.Result, err)
						}
					case failure == nil || failure.Kind != tt.kind || !strings.Contains(cause(failure), tt.says) || !failure.Delivered:
						t.Errorf("%s: %s, %+v; want %s with %q", tt.name, answer.Result, err, tt.kind, tt.says)
					}
					if got, err := r.Call(within(t), tool("echo", `{}`)); err != nil || got.Fault != nil {
						t.Errorf("the call after %s: %+v, %v", tt.name, got, err)
					}
				})
			}
			all.Wait()
			for _, tt := range tests {
				n := 0
				for _, s := range f.requests(mcp.MethodToolsCall) {
					if name, _ := mcp.LookupString([]byte(s.Body), "params", "name"); name == tt.name {
						n++
					}
				}
				// On a busy machine the deadline may be over before it is sent.
				if n != 1 && (n != 0 || tt.kind != mcp.FailTimeout) {
					t.Errorf("%s was sent %d times: nothing is retried blindly", tt.name, n)
				}
			}
			if _, status := r.Listing(); status.State != mcp.Ready {
				t.Errorf("state = %v (%s)", status.State, status.Reason)
			}
		})
	}
}

// A redirect is not followed: neither the body nor a credential leaves.
func TestHostileRedirect(t *testing.T) {
	t.Parallel()
	var strangers atomic.Int64
	stranger := newFake(t, mcp.Modern)
	stranger.handle(mcp.MethodToolsCall, func(x *exchange) { strangers.Add(1); x.echo() })
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, at := range []string{mcp.MethodDiscover, mcp.MethodToolsCall} {
			t.Run(fmt.Sprintf("%d of %s", status, at), func(t *testing.T) {
				t.Parallel()
				f := newFake(t, mcp.Modern)
				f.handle(at, func(x *exchange) { http.Redirect(x.w, x.r, stranger.url(), status) })
				spec := f.spec()
				spec.Headers = map[string]string{"X-Api-Key": "secret"}
				r := run(t, spec)
				var reason string
				if at == mcp.MethodDiscover {
					reason = r.state(mcp.Failed)
				} else {
					r.state(mcp.Ready)
					failure := r.fails(tool("echo", `{"secret":true}`))
					reason = cause(failure)
				}
				if !strings.Contains(reason, fmt.Sprintf("redirects (HTTP %d)", status)) || strings.Contains(reason, "127.0.0.1") {
					t.Errorf("reason = %s", reason)
				}
				if n := len(f.requests(at)); at == mcp.MethodToolsCall && n != 1 {
					t.Errorf("%d requests", n)
				}
			})
		}
	}
	t.Cleanup(func() { // after the parallel subtests
		stranger.mu.Lock()
		defer stranger.mu.Unlock()
		if len(stranger.log) != 0 || strangers.Load() != 0 {
			t.Errorf("the stranger got %+v", stranger.log)
		}
	})
}

// A legacy stream that breaks is resumed behind its last event id, after the
// wait that the server asked for; the tool runs once.
func TestResume(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	var mu sync.Mutex
	var id mcp.ID
	var resumed []string
	f.handle(mcp.MethodToolsCall, func(x *exchange) {
		mu.Lock()
		id = x.msg.ID
		mu.Unlock()
		x.block("id: p-0", "retry: 10", "data:") // primes the stream
		x.block("id: a-1", fmt.Sprintf(`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, x.msg.ID))
		_, _ = x.w.Write([]byte("id: a-2\ndata: {\"jsonrpc\"")) // a half event does not count
		x.flush()
		x.cut()
	})
	f.handle(http.MethodGet, func(x *exchange) {
		last := x.r.Header.Get("Last-Event-Id")
		if last == "" {
			x.status(405, "", "") // no standalone stream
			return
		}
		mu.Lock()
		defer mu.Unlock()
		resumed = append(resumed, last)
		switch last {
		case "a-1":
			x.block("id: a-2", fmt.Sprintf(`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":2}}`, id))
			x.cut()
		case "a-2":
			x.block("id: a-3", "data: "+jsonAnswer(id, `{"done":9007199254740993}`))
		}
	})
	r := run(t, f.spec())
	r.state(mcp.Ready)
	h := &heard{}
	call := tool("echo", `{}`)
	call.Progress, call.Notify = true, h.notify
	if got := r.call(call); got != `{"done":9007199254740993}` {
		t.Errorf("call = %s", got)
	}
	if said := h.list(); len(said) != 2 || !strings.Contains(said[1], `"progress":2`) {
		t.Errorf("progress = %q", said)
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(resumed) != "[a-1 a-2]" || len(f.requests(mcp.MethodToolsCall)) != 1 {
		t.Errorf("resumed behind %v, with %d requests", resumed, len(f.requests(mcp.MethodToolsCall)))
	}
	for _, s := range f.requests(http.MethodGet) {
		if s.Header.Get(mcp.HeaderSession) != "s-1" {
			t.Errorf("resumed without the session: %v", s.Header)
		}
	}
}

// Resuming has an end: a stream that never gives anything new, an event id
// that is taken back, a server that knows no stream, and a modern server,
// whose streams are not resumable.
func TestResumeEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		era     mcp.Era
		begin   func(*exchange)
		again   func(*exchange)
		resumes int
		says    string
	}{
		{
			"nothing new", mcp.Legacy, func(x *exchange) { x.block("id: 1", "retry: 1", "data:") },
			func(x *exchange) { x.block("id: 1", "data:") }, 5, "without an answer",
		},
		{
			"taken back", mcp.Legacy, func(x *exchange) { x.block("id: 1", "retry: 1", "data:"); x.block("id:", "data:") },
			func(x *exchange) {}, 0, "without an answer",
		},
		{
			"no ids", mcp.Legacy, func(x *exchange) { x.progress(1) },
			func(x *exchange) {}, 0, "without an answer",
		},
		{
			"not known", mcp.Legacy, func(x *exchange) { x.block("id: 1", "retry: 1", "data:") },
			func(x *exchange) { x.status(404, "", "") }, 1, "resume the stream: HTTP Not Found",
		},
		{
			"modern", mcp.Modern, func(x *exchange) { x.block("id: 1", "retry: 1", "data:") },
			func(x *exchange) {}, 0, "without an answer",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, tt.era)
			f.handle(mcp.MethodToolsCall, tt.begin)
			var n atomic.Int64
			f.handle(http.MethodGet, func(x *exchange) {
				if x.r.Header.Get("Last-Event-Id") == "" {
					x.status(405, "", "")
					return
				}
				n.Add(1)
				tt.again(x)
			})
			r := run(t, f.spec())
			r.state(mcp.Ready)
			failure := r.fails(tool("echo", `{}`))
			if !strings.Contains(cause(failure), tt.says) || !failure.Delivered {
				t.Errorf("failure = %+v", failure)
			}
			if int(n.Load()) != tt.resumes || len(f.requests(mcp.MethodToolsCall)) != 1 {
				t.Errorf("%d resumes, want %d, and %d requests", n.Load(), tt.resumes, len(f.requests(mcp.MethodToolsCall)))
			}
		})
	}
}

// The standalone stream is resumed behind its last event, too.
func TestResumeStandalone(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.handle(http.MethodGet, func(x *exchange) {
		if x.r.Header.Get("Last-Event-Id") == "" {
			x.block("id: g-1", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"n":1}}`)
			return
		}
		x.block("id: g-2", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"behind":"`+x.r.Header.Get("Last-Event-Id")+`"}}`)
		x.hold()
	})
	r := run(t, f.spec())
	testwait.Until(t, patience, "both messages", func() bool { return len(r.sink.said()) == 2 })
	if said := r.sink.said()[1]; said != `me/ notifications/message {"behind":"g-1"}` {
		t.Errorf("said %s", said)
	}
}

func TestSSEEndpoint(t *testing.T) {
	t.Parallel()
	stranger := newFake(t, mcp.Legacy)
	tests := []struct {
		name, endpoint string
		says           string // empty: works
	}{
		{"a path", "/messages?session=1", ""},
		{"relative", "messages", ""},
		{"absolute", "http://HOST/messages", ""},
		{"another host", "http://STRANGER/mcp", "an endpoint on another host"},
		{"another host without a scheme", "//STRANGER/mcp", "an endpoint on another host"},
		{"another scheme", "https://HOST/messages", "an endpoint on another host"},
		{"with a user", "http://u:p@HOST/messages", "an endpoint on another host"},
		{"a file", "file:///etc/passwd", "an endpoint on another host"},
		{"no URL", "http://[::1", "the endpoint event"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Legacy)
			endpoint := strings.NewReplacer("HOST", f.addr, "STRANGER", stranger.addr).Replace(tt.endpoint)
			f.oldSSEAt(endpoint, func(x *exchange) { x.status(405, "", "") })
			spec := f.spec()
			spec.Transport = SSE
			spec.Headers = map[string]string{"Authorization": "Bearer k"}
			r := run(t, spec)
			if tt.says == "" {
				r.state(mcp.Ready)
				r.call(tool("old", `{}`))
				if n := len(f.requests(mcp.MethodDiscover)); n != 0 {
					t.Errorf("%d probes on a transport of the legacy era", n)
				}
				return
			}
			if reason := r.state(mcp.Failed); !strings.Contains(reason, tt.says) {
				t.Errorf("reason = %s", reason)
			}
		})
	}
	t.Cleanup(func() {
		stranger.mu.Lock()
		defer stranger.mu.Unlock()
		if len(stranger.log) != 0 {
			t.Errorf("the stranger got %+v", stranger.log)
		}
	})
}

// Some servers accept a POST of HTTP+SSE only after they have run the request. Meanwhile
// their progress and questions arrive.
func TestSSEAcceptsLate(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.oldSSE(nil)
	get := f.on[http.MethodGet]
	streams := make(chan *exchange, 1)
	f.handle(http.MethodGet, func(x *exchange) {
		streams <- x
		get(x)
	})
	answered, written := make(chan string, 1), make(chan bool, 1)
	f.handle("answer", func(x *exchange) {
		answered <- string(x.msg.Raw)
		x.w.WriteHeader(http.StatusAccepted)
	})
	f.handle(mcp.MethodToolsCall, func(x *exchange) {
		stream := <-streams
		stream.notify(mcp.NotifyProgress, `{"progressToken":`+string(x.msg.Meta(mcp.MetaProgressToken))+`,"progress":1}`)
		stream.event(question(`"q"`, mcp.MethodElicit))
		got := <-answered
		stream.event(jsonAnswer(x.msg.ID, `{"got":`+got+`}`))
		written <- true
		x.status(http.StatusOK, "", "")
	})
	spec := f.spec()
	spec.Transport = SSE
	spec.URL = strings.Replace(spec.URL, "http://", "http://user:pw@", 1)
	r := run(t, spec)
	r.state(mcp.Ready)
	h := &heard{}
	call := asking(newAsker())
	call.Progress, call.Notify = true, h.notify
	if got := r.call(call); got != `{"got":{"jsonrpc":"2.0","id":"q","result":{"action":"accept"}}}` {
		t.Errorf("call = %s", got)
	}
	receives(t, "the end of writing to the stream", written) // which ends with the server
	if len(h.list()) != 1 {
		t.Errorf("heard %q", h.list())
	}
	for _, s := range f.requests(mcp.MethodToolsCall) {
		if s.Header.Get("Authorization") != "Basic dXNlcjpwdw==" {
			t.Errorf("a POST with the headers %v", s.Header)
		}
	}
}

// A refused POST of HTTP+SSE ends its call at once. The error tells whether the request
// may have been run.
func TestSSERefusals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status    int
		kind      mcp.FailureKind
		delivered bool
	}{
		{400, mcp.FailProtocol, false},
		{401, mcp.FailLogin, false},
		{413, mcp.FailProtocol, false},
		{500, mcp.FailProtocol, true},
		{502, mcp.FailProtocol, true},
		{503, mcp.FailProtocol, true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Legacy)
			f.oldSSE(nil)
			f.handle(mcp.MethodToolsCall, func(x *exchange) { x.status(tt.status, "", "") })
			spec := f.spec()
			spec.Transport = SSE
			r := run(t, spec)
			r.state(mcp.Ready)
			if failure := r.fails(tool("old", `{}`)); failure.Kind != tt.kind || failure.Delivered != tt.delivered {
				t.Errorf("failure = %+v", failure)
			}
			if n := len(f.requests(mcp.MethodToolsCall)); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// The same over streamable HTTP, where it decides about the refund of a charge.
func TestDelivered(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		answer    func(*exchange)
		delivered bool
	}{
		{"429 that says when", func(x *exchange) { x.w.Header().Set("Retry-After", "1"); x.status(429, "", "") }, false},
		{"503 that says when", func(x *exchange) { x.w.Header().Set("Retry-After", "1"); x.status(503, "", "") }, false},
		{"503", func(x *exchange) { x.status(503, "", "") }, true},
		{"500 that says when", func(x *exchange) { x.w.Header().Set("Retry-After", "1"); x.status(500, "", "") }, true},
		{"cut", func(x *exchange) { x.cut() }, true},
		{"401", func(x *exchange) { x.status(401, "", "") }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Modern)
			f.handle(mcp.MethodToolsCall, tt.answer)
			r := run(t, f.spec())
			r.state(mcp.Ready)
			if failure := r.fails(tool("echo", `{}`)); failure.Delivered != tt.delivered {
				t.Errorf("failure = %+v", failure)
			}
		})
	}
}

package proxy

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// slowly answers after a while, with progress at the given times.
func slowly(era mcp.Era, after time.Duration, progress ...time.Duration) func(context.Context, *mcp.Call) (mcp.Answer, error) {
	return func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
		began := time.Now()
		for _, at := range progress {
			time.Sleep(time.Until(began.Add(at)))
			call.Notify(mcp.NotifyProgress, []byte(`{"progress":1}`))
		}
		time.Sleep(time.Until(began.Add(after)))
		return answered(era, `{"content":[]}`), nil
	}
}

func TestAnswerForm(t *testing.T) {
	const comment = ":\n\n"
	tests := []struct {
		name     string
		after    time.Duration
		progress []time.Duration
		stream   bool
		comments int // before the response
	}{
		{"at once", 0, nil, false, 0},
		{"just before 5 s", 5*time.Second - 1, nil, false, 0},
		{"after 5 s", 5*time.Second + 1, nil, true, 1},
		{"a comment every 15 s", 50*time.Second + 1, nil, true, 4}, // at 5, 20, 35, 50
		{"progress at once", time.Second, []time.Duration{0}, true, 0},
		{"progress puts the comments off", 20 * time.Second, []time.Duration{time.Second, 10 * time.Second}, true, 0},
		{"comments after progress", 40 * time.Second, []time.Duration{time.Second}, true, 2}, // at 16, 31
	}
	for _, tt := range tests {
		for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			t.Run(tt.name+"/"+era.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newScript(t, "s", era, tool("slow"))
					b.reply = slowly(era, tt.after, tt.progress...)
					r := newRig(t, mounted(b)).run()
					req := modernRequest(modernBody("1", "tools/call", `"name":"s__slow"`, `"progressToken":1`))
					if era == mcp.Legacy {
						req = httpRequest("POST", "/mcp", request("1", "tools/call", `{"name":"s__slow","_meta":{"progressToken":1}}`), "Mcp-Session-Id", r.open())
					}
					w := r.do(req)
					time.Sleep(time.Hour) // everything ends
					if w.code() != http.StatusOK {
						t.Fatalf("status %d: %s", w.code(), w.text())
					}
					kind, unbuffered := w.field("Content-Type"), w.field("X-Accel-Buffering")
					if !tt.stream {
						if kind != "application/json" || unbuffered != "" || !strings.HasPrefix(w.text(), `{"jsonrpc":"2.0","id":1,"result":{`) {
							t.Errorf("%s: %s", kind, w.text())
						}
						return
					}
					if kind != "text/event-stream" || unbuffered != "no" || w.field("Cache-Control") != "no-cache, no-transform" {
						t.Errorf("headers %v", w.sent)
					}
					if got := strings.Count(w.text(), comment); got != tt.comments {
						t.Errorf("%d comments, want %d: %q", got, tt.comments, w.text())
					}
					if got := strings.Count(w.text(), "notifications/progress"); got != len(tt.progress) {
						t.Errorf("%d notifications, want %d: %q", got, len(tt.progress), w.text())
					}
					i, j := strings.LastIndex(w.text(), "notifications/progress"), strings.Index(w.text(), `"result":`)
					if j < 0 || i > j || strings.Count(w.text(), `"result":`) != 1 || !strings.HasSuffix(w.text(), "}\n\n") {
						t.Errorf("the answer is not the last event: %q", w.text())
					}
				})
			})
		}
	}
}

// Messages of a backend after its answer, or after the disconnect of its client, are
// dropped.
func TestLateNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Modern, tool("slow"))
		var late func(string, []byte)
		b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
			late = call.Notify
			call.Notify(mcp.NotifyProgress, []byte(`{"progress":1}`))
			return answered(mcp.Modern, `{"content":[]}`), nil
		}
		r := newRig(t, mounted(b)).run()
		w := r.do(modernRequest(modernBody("1", "tools/call", `"name":"s__slow"`, `"progressToken":1`)))
		before := w.text()
		late(mcp.NotifyProgress, []byte(`{"progress":2}`))
		time.Sleep(time.Hour)
		if w.text() != before {
			t.Errorf("after the answer: %q", w.text()[len(before):])
		}
	})
}

func TestIdleStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("echo")))).run()
		get, _ := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", r.open(), "Accept", "text/event-stream"))
		sse, _ := r.begin(httpRequest("GET", "/sse", ""))
		listen, _ := r.begin(modernRequest(modernBody("1", "subscriptions/listen", `"notifications":{}`, "")))
		synctest.Wait()
		for name, w := range map[string]*recorder{"GET": get, "SSE": sse, "listen": listen} {
			if w.code() != http.StatusOK || w.field("X-Accel-Buffering") != "no" {
				t.Errorf("%s: status %d, headers %v", name, w.code(), w.sent)
			}
			w.next()
		}
		time.Sleep(61 * time.Second)
		for name, w := range map[string]*recorder{"GET": get, "SSE": sse, "listen": listen} {
			if got := w.next(); got != strings.Repeat(":\n\n", 4) {
				t.Errorf("%s: after 61 s %q, want 4 comments", name, got)
			}
		}
	})
}

// A client that has disconnected, or reads nothing, ends only its own stream.
func TestBrokenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("echo")))).run()
		id := r.open()
		w, _ := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", id))
		synctest.Wait()
		w.mu.Lock()
		w.broken = errBoom
		w.mu.Unlock()
		time.Sleep(16 * time.Second)
		if !w.ended() {
			t.Fatal("the stream goes on without a client")
		}
		again, _ := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", id))
		synctest.Wait()
		if again.code() != http.StatusOK {
			t.Errorf("the next stream: status %d", again.code())
		}
	})
}

package proxy

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// A draining gateway begins no calls. It waits for those under way as long as it may,
// and then ends them with a response that says so. Charges stay, and each call has one
// entry.
func TestDrainWaitsForCalls(t *testing.T) {
	for _, inTime := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newScript(t, "s", mcp.Legacy, tool("echo"))
			b.reply = func(ctx context.Context, _ *mcp.Call) (mcp.Answer, error) {
				select {
				case <-time.After(time.Minute):
					return answered(mcp.Legacy, `{"content":[]}`), nil
				case <-ctx.Done():
					return mcp.Answer{}, context.Cause(ctx)
				}
			}
			r := noted(t, b, nil, nil)
			session := r.open()
			r.opts.Auditor.(*ledger).journal.clear()
			slow, _ := r.begin(httpRequest("POST", "/mcp", request("1", "tools/call", `{"name":"s__echo"}`), "Mcp-Session-Id", session))
			synctest.Wait()
			limit := time.Hour
			if !inTime {
				limit = time.Second
			}
			began, cut := time.Now(), make(chan int, 1)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			go func() { cut <- r.Drain(ctx) }()
			synctest.Wait()
			if w := r.legacy(session, "2", "tools/call", `{"name":"s__echo"}`); !strings.Contains(w.text(), `"kind":"shutting_down","code":1001,"phase":"gateway","retry_after_ms":5000`) {
				t.Errorf("a call that comes now: %s", w.text())
			}
			if w := r.legacy(session, "3", "tools/list", ""); !strings.Contains(w.text(), "s__echo") {
				t.Errorf("a list: %s", w.text())
			}
			n, took := <-cut, time.Since(began)
			synctest.Wait()
			want, outcome := `"result":{"content":[]}`, audit.OutcomeOK
			if !inTime {
				want, outcome = "check before you repeat it", audit.OutcomeError
			}
			if !strings.Contains(slow.text(), want) || n != map[bool]int{true: 0, false: 1}[inTime] || took != map[bool]time.Duration{true: time.Minute, false: time.Second}[inTime] {
				t.Errorf("in time %v: %d cut after %v, answer %s", inTime, n, took, slow.text())
			}
			entries := r.ledger.all()
			if len(entries) != 2 || entries[1].Outcome != outcome {
				t.Errorf("entries %+v", entries)
			}
			if steps := strings.Join(r.steps(), ", "); strings.Count(steps, "charge") != 1 || strings.Contains(steps, "refund") {
				t.Errorf("steps %s", steps)
			}
		})
	}
}

// slowWriter is a client whose connection accepts nothing for a while.
type slowWriter struct {
	*recorder
	takes chan struct{}
}

func (w slowWriter) Write(p []byte) (int, error) {
	<-w.takes
	return w.recorder.Write(p)
}

// On each transport, a cancelled call is over only when its response is written. The
// gateway waits for that.
func TestDrainWaitsForAnswers(t *testing.T) {
	for name, ask := range map[string]func(r *rig, session string) *http.Request{
		"legacy": func(_ *rig, session string) *http.Request {
			return httpRequest("POST", "/mcp", request("1", "tools/call", `{"name":"s__echo"}`), "Mcp-Session-Id", session)
		},
		"modern": func(*rig, string) *http.Request {
			return modernRequest(modernBody("1", "tools/call", `"name":"s__echo"`, ""), "Mcp-Name", "s__echo")
		},
		"batch": func(r *rig, _ string) *http.Request {
			return httpRequest("POST", "/mcp", "["+request("1", "tools/call", `{"name":"s__echo"}`)+"]", "Mcp-Session-Id", r.openAt("2025-03-26"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newScript(t, "s", mcp.Legacy, tool("echo"))
				b.reply = func(ctx context.Context, _ *mcp.Call) (mcp.Answer, error) {
					<-ctx.Done()
					return mcp.Answer{}, context.Cause(ctx)
				}
				r := newRig(t, mounted(b), func(o *Options, _ *Config) { o.Limits.JSONWait = time.Hour })
				w := slowWriter{newRecorder(), make(chan struct{})}
				req := ask(r, r.open())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					r.Handler().ServeHTTP(w, req)
				}()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				drained := make(chan struct{})
				go func() {
					defer close(drained)
					if cut := r.Drain(ctx); cut != 1 {
						t.Errorf("%d calls were cut", cut)
					}
				}()
				time.Sleep(1500 * time.Millisecond)
				synctest.Wait()
				select {
				case <-drained:
					t.Error("the gateway goes on before the answer is written")
				default:
				}
				close(w.takes)
				began := time.Now()
				<-drained
				<-ended
				if took := time.Since(began); took != 0 || !strings.Contains(w.text(), "check before you repeat it") {
					t.Errorf("went on after %v, answer %s", took, w.text())
				}
			})
		})
	}
}

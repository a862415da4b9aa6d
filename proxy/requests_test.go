package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// bounded limits the requests of clients.
func bounded(rates limit.Rates) func(*Options, *Config) {
	return func(_ *Options, c *Config) { c.Requests = rates }
}

// Each kind of request is limited for each principal. The refusal names the setting,
// and requests are served again later.
func TestRequestRates(t *testing.T) {
	for _, tt := range []struct {
		setting string
		rates   limit.Rates
		send    func(r *rig, who string, i int) *recorder
		status  int // of one request too many
	}{
		{"lists_per_minute", limit.Rates{Lists: 3}, func(r *rig, who string, i int) *recorder {
			method := []string{mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResources, mcp.MethodTemplates}[i%4]
			return r.modern("1", method, "", "Authorization", "Bearer "+who)
		}, http.StatusOK},
		{"initializes_per_minute", limit.Rates{Initializes: 3}, func(r *rig, who string, _ int) *recorder {
			return r.post(initBody, "Authorization", "Bearer "+who)
		}, http.StatusTooManyRequests},
		{"initializes_per_minute", limit.Rates{Initializes: 3}, func(r *rig, who string, _ int) *recorder {
			return r.modern("1", mcp.MethodDiscover, "", "Authorization", "Bearer "+who)
		}, http.StatusOK},
		{"unknown_per_minute", limit.Rates{Unknown: 3}, func(r *rig, who string, i int) *recorder {
			return r.modern("1", mcp.MethodToolsCall, fmt.Sprintf(`"name":"s__%s"`, []string{"nothing", "hidden"}[i%2]), "Authorization", "Bearer "+who)
		}, http.StatusOK},
		{"completions_per_minute", limit.Rates{Completions: 3}, func(r *rig, who string, _ int) *recorder {
			return r.modern("1", mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"s__p"},"argument":{"name":"a","value":""}`, "Authorization", "Bearer "+who)
		}, http.StatusOK},
		{"notifications_per_minute", limit.Rates{Notifications: 3}, func(r *rig, who string, _ int) *recorder {
			req := httpRequest(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{`+modernMeta+`}}}`,
				"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "notifications/x", "Authorization", "Bearer "+who)
			return r.do(req)
		}, http.StatusTooManyRequests},
	} {
		t.Run(tt.setting, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newScript(t, "s", mcp.Modern, tool("a"), tool("hidden"), `prompt {"name":"p"}`)
				limited := 0
				r := newRig(t, mounted(b), hide("hidden"), bounded(tt.rates), func(o *Options, _ *Config) {
					o.Metrics = &Metrics{Limited: func(setting string) {
						if setting == tt.setting {
							limited++
						}
					}}
				})
				for i := range 3 {
					if w := tt.send(r, "alice", i); strings.Contains(w.text(), refusal.KindRate) || w.code() >= 400 {
						t.Fatalf("%d: status %d, %s", i, w.code(), w.text())
					}
				}
				w := tt.send(r, "alice", 3)
				if w.code() != tt.status || !strings.Contains(w.text(), "limits."+tt.setting) || !strings.Contains(w.text(), `"retry_after_ms":20000`) ||
					!strings.Contains(w.text(), refusal.KindRate) || !strings.Contains(w.text(), "wait 20s") {
					t.Errorf("one too many: status %d, %s", w.code(), w.text())
				}
				if after := w.field("Retry-After"); tt.status == http.StatusTooManyRequests && after != "20" {
					t.Errorf("Retry-After %q, want 20", after)
				}
				if w := tt.send(r, "alice", 3); !strings.Contains(w.text(), refusal.KindRate) {
					t.Errorf("two too many: %s", w.text())
				}
				if w := tt.send(r, "bob", 0); strings.Contains(w.text(), refusal.KindRate) {
					t.Errorf("another principal: %s", w.text())
				}
				time.Sleep(20 * time.Second)
				if w := tt.send(r, "alice", 0); strings.Contains(w.text(), refusal.KindRate) {
					t.Errorf("when it is time: %s", w.text())
				}
				if limited != 2 || strings.Count(r.log.String(), "limits."+tt.setting) != 1 {
					t.Errorf("counted %d times; the log says %s", limited, r.log)
				}
				for _, s := range r.sessions.list() {
					s.end(errSessionEnded)
				}
			})
		})
	}
}

// Missing and hidden names count the same and look the same, also when there are too
// many.
func TestManyUnknownNamesRevealNothing(t *testing.T) {
	var texts [2]string
	for i, name := range []string{"s__nowhere", "s__unknown"} {
		r := newRig(t, mounted(newScript(t, "s", mcp.Modern, tool("nowhere"), tool("a"))), hide("nowhere"), bounded(limit.Rates{Unknown: 2}))
		for range 4 {
			texts[i] += strings.ReplaceAll(r.modern("1", mcp.MethodToolsCall, `"name":"`+name+`"`).text(), name, "NAME") + "\n"
		}
		if w := r.modern("1", mcp.MethodToolsCall, `"name":"s__a"`); strings.Contains(w.text(), refusal.KindRate) {
			t.Errorf("a call of what exists is refused: %s", w.text())
		}
		for _, e := range r.ledger.all()[:4] {
			if e.Outcome != audit.OutcomeDenied {
				t.Errorf("%+v", e)
			}
		}
	}
	cut := func(s string) string { // the wait and the id of the decision differ
		var out []string
		for line := range strings.Lines(s) {
			line, _, _ = strings.Cut(line, "wait ")
			out = append(out, line)
		}
		return strings.Join(out, "\n")
	}
	if cut(texts[0]) != cut(texts[1]) {
		t.Errorf("hidden:\n%s\nunknown:\n%s", texts[0], texts[1])
	}
}

// Too many cancellations are ignored, and calls of others go on.
func TestTooManyCancellations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("slow"))
		b.reply = func(ctx context.Context, _ *mcp.Call) (mcp.Answer, error) {
			select {
			case <-ctx.Done():
				return mcp.Answer{}, context.Cause(ctx)
			case <-time.After(time.Second):
				return answered(mcp.Legacy, `{"content":[]}`), nil
			}
		}
		r := newRig(t, mounted(b), bounded(limit.Rates{Cancels: 5})).run()
		session := r.open()
		defer r.session(session, person("alice"), Scope{}).end(errSessionEnded)
		cancelled := func(id int) *recorder {
			return r.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id), "Mcp-Session-Id", session)
		}
		for i := range 5 {
			if w := cancelled(1000 + i); w.code() != http.StatusAccepted {
				t.Fatalf("status %d", w.code())
			}
		}
		w, _ := r.begin(httpRequest(http.MethodPost, "/mcp", request("7", mcp.MethodToolsCall, `{"name":"s__slow"}`), "Mcp-Session-Id", session))
		synctest.Wait()
		if c := cancelled(7); c.code() != http.StatusTooManyRequests || !strings.Contains(c.text(), "limits.cancels_per_minute") {
			t.Errorf("one too many: status %d, %s", c.code(), c.text())
		}
		<-w.done
		if !strings.Contains(w.text(), `"content"`) {
			t.Errorf("the call ended by what was not heard: %s", w.text())
		}
	})
}

// The rounds of a call count as one call for rates.
func TestRoundsCountOnce(t *testing.T) {
	limiter := rate.NewMeter(rate.NewLocal(0), nil, nil).Limiter([]rate.Rule{{Name: "r", Rate: rate.Rate{Limit: 2, Window: time.Hour}}})
	r := newRig(t, mounted(asking(t, 3)), inARow(2), func(_ *Options, c *Config) { c.Rates = limiter })
	w := r.modern("1", mcp.MethodToolsCall, `"name":"s__ask"`)
	for range 3 {
		w = r.again(stateOf(t, w), "")
	}
	if !strings.Contains(w.text(), `"resultType":"complete"`) {
		t.Errorf("after the last round: %s", w.text())
	}
	for i, want := range []bool{true, false} {
		w := r.modern("1", mcp.MethodToolsCall, `"name":"s__other"`)
		if passed := !strings.Contains(w.text(), refusal.KindRate); passed != want {
			t.Errorf("call %d behind it: %s", i, w.text())
		}
	}
}

// A limit may change while the gateway runs, and may be removed.
func TestRequestRatesFollowTheConfiguration(t *testing.T) {
	r := newRig(t, mounted(newScript(t, "s", mcp.Modern, tool("a"))), bounded(limit.Rates{Lists: 1}))
	list := func() bool {
		return !strings.Contains(r.modern("1", mcp.MethodToolsList, "").text(), refusal.KindRate)
	}
	if !list() || list() {
		t.Fatal("not bounded by 1")
	}
	c := *r.config.Load()
	c.Requests = limit.Rates{}
	r.Apply(c)
	for range 100 {
		if !list() {
			t.Fatal("bounded by nothing")
		}
	}
}

// Rates are checked after the gate and the arguments, before anybody is asked or
// anything is charged. The rounds of a call count once.
func TestRatesInThePipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Modern, tool("a"), tool("denied"), `prompt {"name":"p"}`, `resource {"uri":"file:///r","name":"r"}`)
		m := rate.NewMeter(rate.NewLocal(0), nil, nil)
		limiter := m.Limiter([]rate.Rule{{
			Name: "r", Per: []rate.Dimension{rate.PerPrincipal}, Rate: rate.Rate{Limit: 3, Window: time.Minute},
			Match: func(c *rate.Call) bool { return c.Server == "s" && c.Exposed != "" && c.Original != "" },
		}})
		r := newRig(t, mounted(b), forbid("denied"), func(_ *Options, c *Config) { c.Rates = limiter })
		for range 10 { // not allowed, and not counted
			r.modern("1", mcp.MethodToolsCall, `"name":"s__denied"`)
		}
		for _, send := range []func() *recorder{
			func() *recorder { return r.modern("1", mcp.MethodToolsCall, `"name":"s__a"`) },
			func() *recorder { return r.modern("1", mcp.MethodPromptsGet, `"name":"s__p"`) },
			func() *recorder { return r.modern("1", mcp.MethodRead, `"uri":"s+file:///r"`) },
		} {
			if w := send(); w.code() != http.StatusOK || strings.Contains(w.text(), refusal.KindRate) {
				t.Fatalf("status %d, %s", w.code(), w.text())
			}
		}
		w := r.modern("1", mcp.MethodToolsCall, `"name":"s__a"`)
		for _, want := range []string{
			`"isError":true`, `"text":"This call comes too soon: the limit of 3 calls in 1m per principal is used up. Wait 20s before you make it again."`,
			`"dev.toolgate/refusal":{"kind":"rate_limited","code":1005,"phase":"rate","retry_after_ms":20000,"limit":3,"decision_id":"call-`,
		} {
			if !strings.Contains(w.text(), want) {
				t.Errorf("%s\nis not in %s", want, w.text())
			}
		}
		if w := r.modern("1", mcp.MethodPromptsGet, `"name":"s__p"`); !strings.Contains(w.text(), `"error":{"code":1005,`) || w.code() != http.StatusOK {
			t.Errorf("a prompt: status %d, %s", w.code(), w.text())
		}
		if w := r.modern("1", mcp.MethodToolsCall, `"name":"s__a"`, "Authorization", "Bearer bob"); strings.Contains(w.text(), refusal.KindRate) {
			t.Errorf("bob: %s", w.text())
		}
		last := r.ledger.all()[len(r.ledger.all())-2]
		if last.Outcome != audit.OutcomeDenied || last.Code != refusal.KindRate || len(b.seen("")) != 4 {
			t.Errorf("%+v; %d calls came to the server", last, len(b.seen("")))
		}
		time.Sleep(20 * time.Second)
		if w := r.modern("1", mcp.MethodToolsCall, `"name":"s__a"`); strings.Contains(w.text(), refusal.KindRate) {
			t.Errorf("when it is time: %s", w.text())
		}
	})
}

// A subscription to a hidden resource counts and looks like one to a missing resource,
// also when there are too many.
func TestManyUnknownSubscriptionsRevealNothing(t *testing.T) {
	var texts [2]string
	for i, uri := range []string{"s+file:///nowhere", "none+file:///nowhere"} {
		b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///nowhere","name":"r"}`)
		r := newRig(t, mounted(b), hide("file:///nowhere"), bounded(limit.Rates{Unknown: 2}))
		session := r.open()
		for range 4 {
			text := r.legacy(session, "1", mcp.MethodSubscribe, `{"uri":"`+uri+`"}`).text()
			text, _, _ = strings.Cut(strings.ReplaceAll(text, uri, "URI"), "wait ") // these differ
			texts[i] += text + "\n"
		}
	}
	if texts[0] != texts[1] || !strings.Contains(texts[1], "limits.unknown_per_minute") {
		t.Errorf("hidden:\n%s\nunknown:\n%s", texts[0], texts[1])
	}
}

// A server's updates of resources that are hidden from a subscriber do not count as
// lookups of the subscriber.
func TestUpdatesDoNotCountAsUnknownNames(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///d","name":"d"}`, `resource {"uri":"file:///d/secret","name":"r"}`, tool("a"))
	r := newRig(t, mounted(b), hide("file:///d/secret"), bounded(limit.Rates{Unknown: 2}))
	session := r.open()
	if w := r.legacy(session, "1", mcp.MethodSubscribe, `{"uri":"s+file:///d"}`); !strings.Contains(w.text(), `"result":{}`) {
		t.Fatal(w.text())
	}
	for range 5 {
		r.Happened(mcp.Event{Server: "s", Method: mcp.NotifyResourceUpdated, Params: []byte(`{"uri":"file:///d/secret"}`)})
	}
	testwait.Until(t, patience, "the updates are delivered", func() bool {
		r.notifications.mu.Lock()
		defer r.notifications.mu.Unlock()
		return len(r.notifications.queues) == 0
	})
	if w := r.legacy(session, "2", mcp.MethodToolsCall, `{"name":"s__none"}`); strings.Contains(w.text(), refusal.KindRate) {
		t.Errorf("after updates of what is hidden: %s", w.text())
	}
}

package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// The tests of this file have two tokens of one subject: the broad one may use the
// tools for administrators, the narrow one may not.

var (
	broad  = gate.NewIdentity(gate.Identity{Principal: person("alice").Principal, Groups: []string{"staff", "admin"}, Token: "broad"})
	narrow = gate.NewIdentity(gate.Identity{Principal: person("alice").Principal, Groups: []string{"staff"}, Token: "narrow"})
)

// twoTokens accepts both, and allows the tools for administrators only with the broad
// one.
func twoTokens(o *Options, c *Config) {
	o.Authenticator = bearers{"broad": broad, "narrow": narrow}
	c.Chain = gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
		if strings.Contains(r.Original, "admin") && !slices.Contains(r.Identity.Groups, "admin") {
			return gate.Decision{Reason: "for administrators"}, nil
		}
		return gate.Decision{Effect: gate.Allow}, nil
	}))
}

func bearing(token string, more ...string) []string {
	return append([]string{"Authorization", "Bearer " + token}, more...)
}

// In any order and on any binding, each request is decided, and recorded in the audit
// log, by its own token.
func TestRequestsHaveTheRightsOfTheirToken(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("admin"), tool("plain"))
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return answered(mcp.Legacy, `{"content":[{"type":"text","text":"ran"}]}`), nil
	}
	r := newRig(t, mounted(b), twoTokens, func(o *Options, _ *Config) { o.Limits.InFlight = 1000 }).run()
	session := r.open(bearing("broad")...)
	batched := r.post(strings.Replace(initBody, "2025-11-25", "2025-03-26", 1), bearing("narrow")...).field("Mcp-Session-Id")
	const call = `{"name":"s__admin"}`
	bindings := map[string]func(token string) (ran int, of int){
		"session": func(token string) (int, int) {
			return strings.Count(r.legacy(session, fmt.Sprint(rand.Int64()), "tools/call", call, bearing(token)...).text(), `"ran"`), 1
		},
		"batch": func(token string) (int, int) {
			var all []string
			for i := range 8 {
				all = append(all, request(fmt.Sprint(rand.Int64N(1<<50)*8+int64(i)), "tools/call", call))
			}
			return strings.Count(r.post("["+strings.Join(all, ",")+"]", bearing(token, "Mcp-Session-Id", batched)...).text(), `"ran"`), 8
		},
		"modern": func(token string) (int, int) {
			return strings.Count(r.modern("1", "tools/call", `"name":"s__admin"`, bearing(token)...).text(), `"ran"`), 1
		},
	}
	var all sync.WaitGroup
	for name, serve := range bindings {
		for _, token := range []string{"broad", "narrow"} {
			all.Go(func() {
				for range 100 {
					ran, of := serve(token)
					if want := map[string]int{"broad": of}[token]; ran != want {
						t.Errorf("%s: %d of %d calls with the %s token ran", name, ran, of, token)
						return
					}
				}
			})
		}
	}
	all.Wait()
	for _, c := range b.seen(mcp.MethodToolsCall) {
		if c.Rights != broad.Rights() || c.Token != "broad" {
			t.Fatalf("the server was called for %+v", c)
		}
	}
	for _, e := range r.ledger.all() {
		if admin := slices.Contains(e.Principal.Groups, "admin"); admin != (e.Outcome == audit.OutcomeOK) {
			t.Fatalf("audit: %s of somebody in %q", e.Outcome, e.Principal.Groups)
		}
	}
}

// On the bidirectional stream of HTTP+SSE each message has the rights of its own POST.
func TestMessagesHaveTheRightsOfTheirToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("admin"))
		r := newRig(t, mounted(b), twoTokens).run()
		kept, _ := r.begin(httpRequest(http.MethodGet, "/sse", "", bearing("broad")...))
		synctest.Wait()
		_, path, _ := strings.Cut(strings.TrimSpace(kept.next()), "data: ")
		path = path[strings.Index(path, "/message"):]
		post := func(token, body string) {
			r.do(httpRequest(http.MethodPost, path, body, bearing(token)...))
		}
		post("broad", initBody)
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() { post("narrow", request(fmt.Sprint(i), "tools/call", `{"name":"s__admin"}`)) })
			all.Go(func() { post("broad", request(fmt.Sprint(1000+i), "ping", "")) })
		}
		all.Wait()
		synctest.Wait()
		if got := b.seen(mcp.MethodToolsCall); len(got) > 0 || len(r.ledger.all()) == 0 {
			t.Errorf("%d of %d calls with the narrow token were made", len(got), len(r.ledger.all()))
		}
	})
}

// A message outside of requests is sent only if all its recipients may see it: the
// reader of the stream and the latest user of the session.
func TestStreamsAreJudgedByTheNarrowerToken(t *testing.T) {
	for _, tt := range []struct {
		reader, latest string
		heard          bool
	}{
		{"broad", "broad", true}, {"broad", "narrow", false}, {"narrow", "broad", false}, {"narrow", "narrow", false},
	} {
		t.Run(tt.reader+" reads, "+tt.latest+" asked last", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newScript(t, "s", mcp.Legacy, tool("admin"), `resource {"uri":"file:///admin","name":"r"}`)
				r := newRig(t, mounted(b), twoTokens).run()
				session := r.open(bearing("broad")...)
				r.legacy(session, "1", "resources/subscribe", `{"uri":"s+file:///admin"}`, bearing("broad")...)
				kept, _ := r.begin(httpRequest(http.MethodGet, "/mcp", "", bearing(tt.reader, "Mcp-Session-Id", session)...))
				synctest.Wait()
				r.legacy(session, "2", "ping", "", bearing(tt.latest)...)
				tell := func(what string, news func()) {
					t.Helper()
					kept.next()
					news()
					time.Sleep(time.Second)
					synctest.Wait()
					if got := kept.next(); strings.Contains(got, what) != tt.heard {
						t.Errorf("%s: the stream says %q", what, got)
					}
				}
				tell("resources/updated", func() {
					r.Happened(mcp.Event{Server: "s", Method: mcp.NotifyResourceUpdated, Params: []byte(`{"uri":"file:///admin"}`)})
				})
				tell("notifications/message", func() {
					r.legacy(session, "3", "logging/setLevel", `{"level":"info"}`, bearing(tt.latest)...)
					kept.next()
					r.Happened(mcp.Event{Server: "s", Principal: broad.Key(), Method: mcp.NotifyMessage, Params: []byte(`{"level":"error","data":"x"}`)})
				})
				tell("tools/list_changed", func() {
					b.offer(t, mcp.Legacy, everything, tool("admin"), tool("other admin"))
					r.Changed("s")
				})
			})
		})
	}
}

// What began with one token cannot continue with another: the rest of a response, and
// the answer to a question.
func TestAnswersAreForTheirToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("admin"))
		b.reply = slowly(mcp.Legacy, 3*time.Second, 0, time.Second)
		r := newRig(t, mounted(b), twoTokens).run()
		session := r.open(bearing("broad")...)
		w, _ := r.begin(httpRequest(http.MethodPost, "/mcp", request("1", "tools/call", `{"name":"s__admin","_meta":{"progressToken":1}}`),
			bearing("broad", "Mcp-Session-Id", session)...))
		time.Sleep(5 * time.Second)
		ids := idsOf(w.text())
		if len(ids) == 0 {
			t.Fatalf("no ids in %q", w.text())
		}
		for token, status := range map[string]int{"narrow": http.StatusBadRequest, "broad": http.StatusOK} {
			got, _ := r.begin(httpRequest(http.MethodGet, "/mcp", "", bearing(token, "Mcp-Session-Id", session, "Last-Event-Id", ids[0])...))
			synctest.Wait()
			if got.code() != status || strings.Contains(got.text(), `"result"`) != (status == http.StatusOK) {
				t.Errorf("the %s token gets %d %q", token, got.code(), got.text())
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := rounded(t, asks(`"a":{"method":"elicitation/create","params":{"message":"m"}}`, `"s"`))
		r := newRig(t, mounted(b), twoTokens).run()
		session := r.open(bearing("broad")...)
		w, _ := r.begin(httpRequest(http.MethodPost, "/mcp", request("1", "tools/call", `{"name":"s__ask"}`), bearing("broad", "Mcp-Session-Id", session)...))
		synctest.Wait()
		_, id, _ := strings.Cut(w.next(), `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		for _, token := range []string{"narrow", "broad"} {
			r.post(`{"jsonrpc":"2.0","id":"`+id+`","result":{"action":"accept","content":{"by":"`+token+`"}}}`, bearing(token, "Mcp-Session-Id", session)...)
			synctest.Wait()
		}
		if got := w.text(); strings.Contains(got, `"by":"narrow"`) || !w.ended() {
			t.Errorf("the call ends with %q", got)
		}
	})
}

// A server that keeps rights apart has a subscription for each, and updates of one do
// not reach the other.
func TestConnectionsOfRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///r","name":"r"}`)
		mounts := mounted(b)
		mounts[0].PerRights = true
		r := newRig(t, mounts, twoTokens).run()
		streams := map[string]*recorder{}
		for _, token := range []string{"broad", "narrow"} {
			session := r.open(bearing(token)...)
			streams[token], _ = r.begin(httpRequest(http.MethodGet, "/mcp", "", bearing(token, "Mcp-Session-Id", session)...))
			synctest.Wait()
			r.legacy(session, "1", "resources/subscribe", `{"uri":"s+file:///r"}`, bearing(token)...)
		}
		var asked []string
		for _, c := range b.seen(mcp.MethodSubscribe) {
			asked = append(asked, c.Token)
		}
		if !slices.Equal(asked, []string{"broad", "narrow"}) {
			t.Errorf("the server was asked for %q", asked)
		}
		r.Happened(mcp.Event{
			Server: "s", Principal: broad.Key(), Rights: broad.Rights(),
			Method: mcp.NotifyResourceUpdated, Params: []byte(`{"uri":"file:///r"}`),
		})
		synctest.Wait()
		for token, kept := range streams {
			if got := kept.next(); (got != "") != (token == "broad") {
				t.Errorf("%s was told %q", token, got)
			}
		}
		// The same resource again with the other token: the first subscription ends.
		session := r.open(bearing("broad")...)
		r.legacy(session, "1", "resources/subscribe", `{"uri":"s+file:///r"}`, bearing("broad")...)
		r.legacy(session, "2", "resources/subscribe", `{"uri":"s+file:///r"}`, bearing("narrow")...)
		r.legacy(session, "3", "resources/unsubscribe", `{"uri":"s+file:///r"}`, bearing("broad")...)
		if got := b.seen(mcp.MethodUnsubscribe); len(got) != 0 {
			t.Errorf("%d subscriptions end that others use", len(got))
		}
	})
}

// A session ends when the credential of its reader is revoked, whoever else uses it.
func TestSessionsEndWithTheirReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("a"))), twoTokens).run()
		session := r.open(bearing("narrow")...)
		kept, _ := r.begin(httpRequest(http.MethodGet, "/mcp", "", bearing("broad", "Mcp-Session-Id", session)...))
		synctest.Wait()
		r.legacy(session, "1", "ping", "", bearing("narrow")...)
		r.EndSessions(func(id *gate.Identity) bool { return id.Token != "broad" })
		synctest.Wait()
		if !kept.ended() {
			t.Error("who is not known any more reads on")
		}
	})
}

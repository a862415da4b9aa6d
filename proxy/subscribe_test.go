package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// methodsOf returns the methods that the backend was called with, and their principals.
func methodsOf(b *script) []string {
	var out []string
	for _, c := range b.seen("") {
		uri, _ := mcp.LookupString(c.Params, "uri")
		name := strings.TrimPrefix(c.Method, "resources/")
		switch c.Principal {
		case person("alice").Key():
			out = append(out, "alice "+name+" "+uri)
		case person("bob").Key():
			out = append(out, "bob "+name+" "+uri)
		default:
			out = append(out, c.Principal+" "+name+" "+uri)
		}
	}
	return out
}

const updatedR = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"s+file:///r\"}}\n\n"

// The first subscriber of a principal subscribes at the server, the last one
// unsubscribes. Sessions that share a resource do not end it for each other.
func TestSubscriptionCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///r","name":"r"}`)
		r := newRig(t, mounted(b)).run()
		one, two := r.open(), r.open()
		three := r.open("Authorization", "Bearer bob")
		do := func(session, method string, headers ...string) {
			t.Helper()
			w := r.legacy(session, "1", "resources/"+method, `{"uri":"s+file:///r"}`, headers...)
			if w.text() != `{"jsonrpc":"2.0","id":1,"result":{}}` {
				t.Errorf("%s: %s", method, w.text())
			}
		}
		do(one, "subscribe")
		do(one, "subscribe") // again: nothing new
		do(two, "subscribe")
		do(three, "subscribe", "Authorization", "Bearer bob")
		do(one, "unsubscribe")
		do(one, "unsubscribe") // again: nothing to end
		do(two, "unsubscribe")
		r.do(httpRequest("DELETE", "/mcp", "", "Mcp-Session-Id", three, "Authorization", "Bearer bob"))
		synctest.Wait()
		want := []string{
			"alice subscribe file:///r", "bob subscribe file:///r", "alice unsubscribe file:///r", "bob unsubscribe file:///r",
		}
		if diff := cmp.Diff(want, methodsOf(b)); diff != "" {
			t.Errorf("the server was asked (-want +got):\n%s", diff)
		}
		if len(r.watches.of) != 0 {
			t.Errorf("left behind: %v", r.watches.of)
		}
		entries := r.ledger.all()
		if len(entries) != 7 {
			t.Errorf("%d audit entries, want one for each of the 7 requests", len(entries))
		}
		for _, e := range entries {
			if e.Kind != "resource" || e.Name != "s+file:///r" || e.Outcome != audit.OutcomeOK || e.Server != "s" && e.Method == mcp.MethodSubscribe {
				t.Errorf("audit entry %+v", e)
			}
		}
	})
}

// Updates of a resource go to their recipients: the principal and session of the
// connection that they came over, and only to subscribers.
func TestUpdatesGoToTheirOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///r","name":"r"}`, `resource {"uri":"file:///dir","name":"d"}`)
		r := newRig(t, mounted(b)).run()
		type client struct {
			session string
			stream  *recorder
		}
		open := func(who string, uris ...string) client {
			header := []string{"Authorization", "Bearer " + who}
			c := client{session: r.open(header...)}
			c.stream, _ = r.begin(httpRequest("GET", "/mcp", "", append(header, "Mcp-Session-Id", c.session)...))
			for _, uri := range uris {
				r.legacy(c.session, "1", "resources/subscribe", `{"uri":"`+uri+`"}`, header...)
			}
			synctest.Wait()
			return c
		}
		clients := map[string]client{
			"alice": open("alice", "s+file:///r"), "alice too": open("alice", "s+file:///r"), "alice's other": open("alice", "s+file:///dir"),
			"alice, silent": open("alice"), "bob": open("bob", "s+file:///r"),
		}
		alice, bob := person("alice").Key(), person("bob").Key()
		tests := []struct {
			name string
			ev   mcp.Event
			uri  string
			want []string
		}{
			{"shared connection", mcp.Event{}, "file:///r", []string{"alice", "alice too", "bob"}},
			{"connection of alice", mcp.Event{Principal: alice}, "file:///r", []string{"alice", "alice too"}},
			{"connection of bob", mcp.Event{Principal: bob}, "file:///r", []string{"bob"}},
			{"connection of one session", mcp.Event{Principal: alice, Session: clients["alice too"].session}, "file:///r", []string{"alice too"}},
			{"connection of nobody here", mcp.Event{Principal: "x"}, "file:///r", nil},
			{"part of a resource", mcp.Event{}, "file:///dir/x", []string{"alice's other"}},
			{"fragment of a resource", mcp.Event{}, "file:///dir#x", []string{"alice's other"}},
			{"a longer name", mcp.Event{}, "file:///directory", nil},
			{"another resource", mcp.Event{}, "file:///q", nil},
		}
		for _, tt := range tests {
			tt.ev.Server, tt.ev.Method, tt.ev.Params = "s", mcp.NotifyResourceUpdated, []byte(`{"uri":"`+tt.uri+`"}`)
			r.Happened(tt.ev)
			synctest.Wait()
			for name, c := range clients {
				got := c.stream.next()
				if told := got != ""; told != slices.Contains(tt.want, name) {
					t.Errorf("%s: %s was told %q", tt.name, name, got)
				} else if told && tt.uri == "file:///r" && got != updatedR {
					t.Errorf("%s: %s was told %q", tt.name, name, got)
				}
			}
		}
		r.Happened(mcp.Event{Server: "none", Method: mcp.NotifyResourceUpdated, Params: []byte(`{"uri":"file:///r"}`)})
		r.Happened(mcp.Event{Server: "s", Method: mcp.NotifyResourceUpdated, Params: []byte(`{"uri":7}`)})
		r.Happened(mcp.Event{Server: "s", Method: mcp.NotifyResourceUpdated})
		synctest.Wait()
		for name, c := range clients {
			if got := c.stream.next(); got != "" {
				t.Errorf("%s was told %q", name, got)
			}
		}
	})
}

// A subscription that the server refuses does not exist.
func TestRefusedSubscription(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///r","name":"r"}`)
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return fault(mcp.Legacy, `{"code":-32001,"message":"no","data":7}`), nil
	}
	r := newRig(t, mounted(b))
	if w := r.legacy(r.open(), "1", "resources/subscribe", `{"uri":"s+file:///r"}`); w.text() != `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no","data":7}}` {
		t.Errorf("%s", w.text())
	}
	if len(r.watches.of) != 0 {
		t.Errorf("left behind: %v", r.watches.of)
	}
	w, leave := r.begin(modernRequest(modernBody("1", "subscriptions/listen", `"notifications":{"resourceSubscriptions":["s+file:///r"]}`, "")))
	testwait.Until(t, patience, "the stream is acknowledged", func() bool { return strings.Contains(w.text(), "acknowledged") })
	if !strings.Contains(w.text(), `"notifications":{"resourceSubscriptions":[]}`) {
		t.Errorf("acknowledged: %s", w.text())
	}
	leave()
}

// The gate decides on subscriptions as on reads.
func TestSubscribePassesTheGate(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, `resource {"uri":"file:///r","name":"r"}`)
	for name, change := range map[string]func(*Options, *Config){"hidden": hide("file:///r"), "forbidden": forbid("file:///r"), "no gate": func(_ *Options, c *Config) { c.Chain = nil }} {
		r := newRig(t, mounted(b), change)
		w := r.legacy(r.open(), "1", "resources/subscribe", `{"uri":"s+file:///r"}`)
		if !strings.Contains(w.text(), `"error"`) {
			t.Errorf("%s: %s", name, w.text())
		}
	}
	if n := len(b.seen("")); n != 0 {
		t.Errorf("%d refused subscriptions reached the server", n)
	}
}

func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Modern, tool("echo"), `resource {"uri":"file:///r","name":"r"}`)
		r := newRig(t, mounted(b))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		const member = `"io.modelcontextprotocol/subscriptionId":`
		for _, id := range []string{`7`, `"7"`, `"\u0037x"`, `9007199254740993`} {
			w, leave := r.begin(modernRequest(modernBody(id, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"resourcesListChanged":"yes","resourceSubscriptions":["s+file:///r",7,"none"],"x":1}`, "")))
			synctest.Wait()
			want := "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"_meta\":{" + member + id + "},\"notifications\":{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"s+file:///r\"]}}}\n\n"
			if got := w.next(); got != want || w.field("Content-Type") != "text/event-stream" || w.field("X-Accel-Buffering") != "no" {
				t.Errorf("id %s: first message %q, want %q", id, got, want)
			}
			r.Happened(mcp.Event{Server: "s", Method: mcp.NotifyResourceUpdated, Params: []byte(`{"uri":"file:///r","_meta":{` + member + `4,"own":1}}`)})
			synctest.Wait()
			if got := w.next(); !strings.Contains(got, `"_meta":{"own":1,`+member+id+`}`) {
				t.Errorf("id %s: updated %q", id, got)
			}
			leave()
			<-w.done
		}
		if got := methodsOf(b); len(got) != 8 || got[7] != "alice unsubscribe file:///r" {
			t.Errorf("the server was asked %q", got)
		}
		// At the end of the gateway, a listen request ends with its result.
		w, _ := r.begin(modernRequest(modernBody(`"z"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, "")))
		synctest.Wait()
		w.next()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-w.done
		if want := "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"z\",\"result\":{\"resultType\":\"complete\",\"_meta\":{" + member + "\"z\"}}}\n\n"; w.next() != want {
			t.Errorf("at the end %q, want %q", w.text(), want)
		}
		if len(r.listens.all) != 0 || len(r.watches.of) != 0 {
			t.Errorf("left behind: %v, %v", r.listens.all, r.watches.of)
		}
	})
}

// On stdio a listen request ends with its result as well, as the last message.
func TestListenEndsOnStdio(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, mounted(newScript(t, "s", mcp.Modern, tool("echo"))))
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx) }()
			c := r.stdio(person("alice"))
			c.send(modernBody("5", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, ""))
			synctest.Wait()
			c.out.drain()
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			<-c.done
			if got, want := c.out.String(), `{"jsonrpc":"2.0","id":5,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":5}}}`+"\n"; got != want {
				t.Errorf("at the end %q, want %q", got, want)
			}
		})
	}
}

func TestListenCaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(o *Options, _ *Config) { o.Limits.Listens = 2 }).run()
		open := func(who string) (*recorder, context.CancelFunc) {
			w, leave := r.begin(modernRequest(modernBody("1", "subscriptions/listen", `"notifications":{}`, ""), "Authorization", "Bearer "+who))
			synctest.Wait()
			return w, leave
		}
		first, leave := open("alice")
		open("alice")
		w, _ := open("alice")
		if !w.ended() || w.code() != 200 || !strings.Contains(w.text(), `"error":{"code":1005,"message":"Too many subscriptions are open; end one of them first.","data":{"kind":"too_many_subscriptions","code":1005,"phase":"subscriptions"}}`) {
			t.Errorf("the third: %d %s", w.code(), w.text())
		}
		if w, _ := open("bob"); w.ended() {
			t.Errorf("bob's first: %s", w.text())
		}
		leave()
		<-first.done
		if w, _ := open("alice"); w.ended() {
			t.Errorf("in the place of the first: %s", w.text())
		}
	})
}

// Changed lists are reported once to those whom they concern, and to nobody else.
func TestListChangedGoesToItsScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newScript(t, "one", mcp.Modern, tool("a"), `prompt {"name":"p"}`, `template {"uriTemplate":"x:{a}","name":"t"}`)
		two := newScript(t, "two", mcp.Modern, tool("a"))
		mounts := mounted(one, two)
		mounts[0].Exclude = []string{"secret"}
		r := newRig(t, mounts).run()
		streams := map[string]*recorder{}
		for _, path := range []string{"/mcp", "/mcp/s/one", "/mcp/s/two"} {
			body := modernBody(`"`+path+`"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`, "")
			req := httpRequest("POST", path, body)
			req.Header = modernRequest(body).Header
			streams[path], _ = r.begin(req)
			session := r.do(httpRequest("POST", path, initBody)).field("Mcp-Session-Id")
			streams["GET "+path], _ = r.begin(httpRequest("GET", path, "", "Mcp-Session-Id", session))
		}
		synctest.Wait()
		for _, w := range streams {
			w.next()
		}
		tests := []struct {
			name  string
			items []string
			want  string // told to those who see the server, in this order
		}{
			{"nothing", []string{tool("a"), `prompt {"name":"p"}`, `template {"uriTemplate":"x:{a}","name":"t"}`}, ""},
			{"another order", []string{`template {"uriTemplate":"x:{a}","name":"t"}`, tool("a"), `prompt {"name":"p"}`}, ""},
			{"a tool that is not shown", []string{tool("a"), tool("secret"), `prompt {"name":"p"}`, `template {"uriTemplate":"x:{a}","name":"t"}`}, ""},
			{"a tool", []string{tool("b"), `prompt {"name":"p"}`, `template {"uriTemplate":"x:{a}","name":"t"}`}, "tools"},
			{"a prompt and a template", []string{tool("b"), `prompt {"name":"p","title":"x"}`}, "prompts resources"},
			{"everything", nil, "tools prompts"},
		}
		for _, tt := range tests {
			one.offer(t, mcp.Modern, everything, tt.items...)
			for range 3 {
				r.Changed("one") // however often: told once
			}
			time.Sleep(time.Second)
			for name, w := range streams {
				var told []string
				for line := range strings.Lines(w.next()) {
					if raw, ok := strings.CutPrefix(line, "data: "); ok {
						method, _ := mcp.LookupString([]byte(strings.TrimSpace(raw)), "method")
						told = append(told, strings.TrimSuffix(strings.TrimPrefix(method, "notifications/"), "/list_changed"))
					}
				}
				want := tt.want
				if strings.HasSuffix(name, "/two") {
					want = ""
				}
				if got := strings.Join(told, " "); got != want {
					t.Errorf("%s: %s was told %q, want %q", tt.name, name, got, want)
				}
			}
		}
	})
}

// Log messages outside of calls go to those sessions of the connection's principal that
// have asked for them, and to nobody else.
func TestLogMessagesAreAttributed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("a")))).run()
		header := []string{"Authorization", "Bearer bob"}
		alice, bob := r.open(), r.open(header...)
		streamA, _ := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", alice))
		streamB, _ := r.begin(httpRequest("GET", "/mcp", "", append(header, "Mcp-Session-Id", bob)...))
		r.legacy(alice, "1", "logging/setLevel", `{"level":"info"}`)
		r.legacy(bob, "1", "logging/setLevel", `{"level":"info"}`, header...)
		say := func(principal, session string) {
			r.Happened(mcp.Event{Server: "s", Principal: principal, Session: session, Method: mcp.NotifyMessage, Params: []byte(`{"level":"info","data":"x"}`)})
			synctest.Wait()
		}
		key := person("alice").Key()
		say("", "")
		if a, b := streamA.next(), streamB.next(); a+b != "" {
			t.Errorf("over a shared connection alice was told %q, bob %q", a, b)
		}
		say(key, "")
		if a, b := streamA.next(), streamB.next(); !strings.Contains(a, `"logger":"s"`) || b != "" {
			t.Errorf("over the connection of alice she was told %q, bob %q", a, b)
		}
		second := r.open()
		streamS, _ := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", second))
		say(key, "")
		if a, s, b := streamA.next(), streamS.next(), streamB.next(); !strings.Contains(a, `"data":"x"`) || s+b != "" {
			t.Errorf("of two sessions of alice the one that asked was told %q, the other %q, and bob %q", a, s, b)
		}
		r.legacy(second, "1", "logging/setLevel", `{"level":"debug"}`)
		say(key, "")
		if a, s, b := streamA.next(), streamS.next(), streamB.next(); !strings.Contains(a, `"data":"x"`) || !strings.Contains(s, `"data":"x"`) || b != "" {
			t.Errorf("two sessions of alice were told %q and %q, bob %q", a, s, b)
		}
		say(key, alice)
		if a, s := streamA.next(), streamS.next(); !strings.Contains(a, `"data":"x"`) || s != "" {
			t.Errorf("over the connection of one session it was told %q, the other %q", a, s)
		}
	})
}

// The subscriptions of one subscriber are bounded.
func TestWatchesAreBounded(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, `template {"uriTemplate":"x:{a}","name":"t"}`)
	r := newRig(t, mounted(b), func(_ *Options, c *Config) { c.Chain = gate.NewChain(gate.Open{}) })
	var uris []string
	for i := range 1000 + 10 {
		uris = append(uris, fmt.Sprintf(`"s+x:%d"`, i))
	}
	w, leave := r.begin(modernRequest(modernBody("1", "subscriptions/listen", `"notifications":{"resourceSubscriptions":[`+strings.Join(uris, ",")+`]}`, "")))
	testwait.Until(t, patience, "the stream is acknowledged", func() bool { return strings.Contains(w.text(), "acknowledged") })
	if n := len(b.seen(mcp.MethodSubscribe)); n != 1000 {
		t.Errorf("a listen watches %d resources, want %d", n, 1000)
	}
	leave()
	<-w.done
	session := r.open()
	refused := 0
	for _, uri := range uris {
		if w := r.legacy(session, "1", "resources/subscribe", `{"uri":`+uri+`}`); strings.Contains(w.text(), `"error"`) {
			refused++
		}
	}
	if refused != 10 {
		t.Errorf("of %d subscriptions of a session %d were refused, want 10", len(uris), refused)
	}
}

// When the server of a resource changes, the subscription moves there, and the one at
// the former server ends.
func TestSubscriptionAtAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := newScript(t, "former", mcp.Legacy, `resource {"uri":"file:///r","name":"r"}`)
		latter := newScript(t, "latter", mcp.Legacy, `resource {"uri":"file:///r","name":"r"}`)
		r := newRig(t, mounted(former)).run()
		serve := func(b *script) {
			config := *r.config.Load()
			config.Mounts = mounted(b)
			config.Mounts[0].Namespace = "s"
			r.Apply(config)
		}
		session := r.open()
		for _, b := range []*script{former, latter} {
			serve(b)
			if w := r.legacy(session, "1", "resources/subscribe", `{"uri":"s+file:///r"}`); !strings.Contains(w.text(), `"result":{}`) {
				t.Fatal(w.text())
			}
		}
		if want, got := []string{"alice subscribe file:///r", "alice unsubscribe file:///r"}, methodsOf(former); !slices.Equal(got, want) {
			t.Errorf("the former server was asked %q, want %q", got, want)
		}
		if want, got := []string{"alice subscribe file:///r"}, methodsOf(latter); !slices.Equal(got, want) {
			t.Errorf("the latter server was asked %q, want %q", got, want)
		}
		for key := range r.watches.of {
			if key.server != "latter" {
				t.Errorf("%+v is still watched", key)
			}
		}
	})
}

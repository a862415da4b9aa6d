package proxy

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

func TestSessionIDs(t *testing.T) {
	r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("echo"))))
	seen := map[string]bool{}
	for range 50 {
		id := r.open()
		if len(id) != 48 || strings.Trim(id, "0123456789abcdef") != "" {
			t.Fatalf("the session id %q is not 24 random bytes", id)
		}
		if seen[id] {
			t.Fatalf("the session id %q was given twice", id)
		}
		seen[id] = true
	}
	// Clients cannot choose a session's id.
	w := r.post(initBody, "Mcp-Session-Id", strings.Repeat("a", 48))
	if w.code() != http.StatusNotFound || w.field("Mcp-Session-Id") != "" {
		t.Errorf("initialize with a chosen id: status %d, id %q", w.code(), w.field("Mcp-Session-Id"))
	}
	// The id is a credential and stays out of the log and the audit log.
	id := r.open()
	r.legacy(id, "1", "tools/call", `{"name":"s__echo"}`)
	for _, e := range r.ledger.all() {
		if e.Session == "" || strings.Contains(e.Session, id) || strings.Contains(id, e.Session) {
			t.Errorf("the audit entry names the session %q", e.Session)
		}
	}
	if strings.Contains(r.log.String(), id) {
		t.Error("the log has the session id")
	}
}

func TestLegacyRefusals(t *testing.T) {
	r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("echo"))))
	id := r.open()
	tests := []struct {
		name, method, body string
		headers            []string
		status             int
		code, id           string
	}{
		{"no session", "POST", request("7", "tools/list", ""), nil, 400, "-32600", "7"},
		{"unknown session", "POST", request("7", "tools/list", ""), []string{"Mcp-Session-Id", "x"}, 404, "-32600", "7"},
		{"two sessions", "POST", request("7", "tools/list", ""), []string{"Mcp-Session-Id", id, "Mcp-Session-Id", id}, 400, "-32600", "7"},
		{"notification without session", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 400, "-32600", "null"},
		{"response without session", "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 400, "-32600", "1"},
		{"another version", "POST", request("7", "ping", ""), []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-06-18"}, 400, "-32600", "7"},
		{"no version at all", "POST", request("7", "ping", ""), []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "1.0"}, 400, "-32600", "7"},
		{"two versions", "POST", request("7", "ping", ""), []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25", "Mcp-Protocol-Version", "2025-11-25"}, 400, "-32600", "7"},
		{"second initialize", "POST", initBody, []string{"Mcp-Session-Id", id}, 200, "-32600", "0"},
		{"initialize without a version", "POST", request("7", "initialize", `{}`), nil, 400, "-32602", "7"},
		{"initialize with bad capabilities", "POST", request("7", "initialize", `{"protocolVersion":"2025-11-25","capabilities":[]}`), nil, 400, "-32602", "7"},
		{"unknown method", "POST", request("7", "tools/fly", ""), []string{"Mcp-Session-Id", id}, 200, "-32601", "7"},
		{"a modern method", "POST", request("7", "server/discover", ""), []string{"Mcp-Session-Id", id}, 200, "-32601", "7"},
		{"a batch of a revision without", "POST", "[" + request("7", "ping", "") + "]", []string{"Mcp-Session-Id", id}, 400, "-32600", "null"},
		{"GET that takes no events", "GET", "", []string{"Mcp-Session-Id", id, "Accept", "application/json"}, 406, "-32600", "null"},
		{"GET of an unknown session", "GET", "", []string{"Mcp-Session-Id", "x"}, 404, "-32600", "null"},
		{"DELETE without session", "DELETE", "", nil, 400, "-32600", "null"},
		{"DELETE of an unknown session", "DELETE", "", []string{"Mcp-Session-Id", "x"}, 404, "-32600", "null"},
		{"DELETE with another version", "DELETE", "", []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-06-18"}, 400, "-32600", "null"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := r.do(httpRequest(tt.method, "/mcp", tt.body, tt.headers...))
			gotCode, gotID := code(t, w)
			if w.code() != tt.status || gotCode != tt.code || gotID != tt.id {
				t.Errorf("status %d, code %s, id %s; want %d, %s, %s: %s", w.code(), gotCode, gotID, tt.status, tt.code, tt.id, w.text())
			}
		})
	}
	if r.sessions.count() != 1 {
		t.Errorf("%d sessions are open, want the first one alone", r.sessions.count())
	}
}

func TestVersionNegotiation(t *testing.T) {
	r := newRig(t, nil)
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "2099-01-01": "2025-11-25", "1.0": "2025-11-25", "": "2025-11-25",
	} {
		w := r.post(request("1", "initialize", `{"protocolVersion":"`+asked+`","capabilities":{}}`))
		if got, _ := mcp.LookupString([]byte(w.text()), "result", "protocolVersion"); got != want {
			t.Errorf("asked for %q: %q, want %q", asked, got, want)
		}
	}
}

func TestSessionExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("slow"))
		release := make(chan struct{})
		b.reply = func(ctx context.Context, _ *mcp.Call) (mcp.Answer, error) {
			<-release
			return answered(mcp.Legacy, `{"content":[]}`), nil
		}
		r := newRig(t, mounted(b)).run()
		idle, used, streaming, busy := r.open(), r.open(), r.open(), r.open()
		kept, _ := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", streaming))
		call, _ := r.begin(httpRequest("POST", "/mcp", request("1", "tools/call", `{"name":"s__slow"}`), "Mcp-Session-Id", busy))
		ping := func(id string) int { return r.legacy(id, "1", "ping", "").code() }

		time.Sleep(25 * time.Minute)
		if got := ping(used); got != http.StatusOK {
			t.Fatalf("before its time the session is gone: status %d", got)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := ping(idle); got != http.StatusNotFound {
			t.Errorf("an idle session after 35 minutes: status %d, want 404", got)
		}
		for name, id := range map[string]string{"used": used, "streaming": streaming, "busy": busy} {
			if got := r.legacy(id, "2", "ping", "").code(); got != http.StatusOK {
				t.Errorf("%s session: status %d, want 200", name, got)
			}
		}
		if kept.ended() || call.ended() {
			t.Error("the stream or the call of a living session has ended")
		}
		close(release)
		synctest.Wait()
		time.Sleep(35 * time.Minute)
		synctest.Wait()
		if got := ping(busy); got != http.StatusNotFound {
			t.Errorf("a session 35 minutes after its last call: status %d, want 404", got)
		}
		if !slices.Contains(b.ended, person("alice").Key()+" "+idle) {
			t.Errorf("the server was not told of the end: %q", b.ended)
		}
	})
}

func TestSessionEnd(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("echo"))
	r := newRig(t, mounted(b))
	id := r.open()
	kept, _ := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", id))
	testwait.Until(t, patience, "the stream is open", func() bool { return kept.code() == http.StatusOK })
	if w := r.do(httpRequest("DELETE", "/mcp", "", "Mcp-Session-Id", id)); w.code() != http.StatusNoContent || w.text() != "" {
		t.Errorf("DELETE: status %d, body %q", w.code(), w.text())
	}
	<-kept.done
	for _, method := range []string{"POST", "GET", "DELETE"} {
		w := r.do(httpRequest(method, "/mcp", request("1", "ping", ""), "Mcp-Session-Id", id))
		if c, _ := code(t, w); w.code() != http.StatusNotFound || c != "-32600" {
			t.Errorf("%s after DELETE: status %d, %s", method, w.code(), w.text())
		}
	}
	if want := []string{person("alice").Key() + " " + id}; !slices.Equal(b.ended, want) {
		t.Errorf("the server was told %q, want %q", b.ended, want)
	}
}

// A failed initialize neither takes nor displaces a session.
func TestFailedInitializeKeepsNothing(t *testing.T) {
	r := newRig(t, nil, func(o *Options, _ *Config) { o.Limits.SessionsPerPrincipal = 1 })
	session := r.open()
	for range 3 {
		r.post(request("0", "initialize", `{}`))
	}
	if w := r.legacy(session, "1", "ping", ""); w.code() != http.StatusOK {
		t.Errorf("the session is gone: status %d", w.code())
	}
}

// A session is bound to its owner and its endpoint. Guessing ids reveals nothing.
func TestSessionsAreBound(t *testing.T) {
	r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("echo")), newScript(t, "z", mcp.Legacy, tool("echo"))))
	id := r.open()
	narrow := r.do(httpRequest("POST", "/mcp/s/s", initBody)).field("Mcp-Session-Id")
	sse, _ := r.begin(httpRequest("GET", "/sse", ""))
	testwait.Until(t, patience, "the stream has its endpoint", func() bool { return secrets.MatchString(sse.text()) })
	kept := secrets.FindString(sse.text())

	tests := []struct {
		name, who, method, path, session string
	}{
		{"POST", "bob", "POST", "/mcp", id},
		{"GET", "bob", "GET", "/mcp", id},
		{"DELETE", "bob", "DELETE", "/mcp", id},
		{"SSE POST", "bob", "POST", "/message?sessionId=" + kept, ""},
		{"streamable session on the SSE door", "alice", "POST", "/message?sessionId=" + id, ""},
		{"SSE session on the streamable door", "alice", "POST", "/mcp", kept},
		{"SSE session ended by DELETE", "alice", "DELETE", "/mcp", kept},
		{"session of all servers at one", "alice", "POST", "/mcp/s/s", id},
		{"session of one server at all", "alice", "POST", "/mcp", narrow},
		{"session of one server at another", "alice", "POST", "/mcp/s/z", narrow},
		{"batch", "bob", "POST", "/mcp", id},
	}
	unknown := r.do(httpRequest("POST", "/mcp", request("1", "ping", ""), "Mcp-Session-Id", strings.Repeat("0", 48))).text()
	for _, tt := range tests {
		body := request("1", "ping", "")
		if tt.name == "batch" {
			body = "[" + body + "]"
		}
		req := httpRequest(tt.method, tt.path, body, "Authorization", "Bearer "+tt.who)
		if tt.session != "" {
			req.Header.Set("Mcp-Session-Id", tt.session)
		}
		w := r.do(req)
		if w.code() != http.StatusNotFound {
			t.Errorf("%s: status %d: %s", tt.name, w.code(), w.text())
		}
		if tt.name == "POST" && w.text() != unknown {
			t.Errorf("another's session %s, an unknown one %s", w.text(), unknown)
		}
	}
	for _, own := range []*http.Request{
		httpRequest("POST", "/mcp", request("1", "ping", ""), "Mcp-Session-Id", id),
		httpRequest("POST", "/mcp/s/s", request("1", "ping", ""), "Mcp-Session-Id", narrow),
	} {
		if w := r.do(own); w.code() != http.StatusOK {
			t.Errorf("the owner's own session at %s: status %d", own.URL, w.code())
		}
	}
	if sse.ended() {
		t.Error("the stream of alice has ended")
	}
}

func TestSecondStream(t *testing.T) {
	r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("echo"))))
	id := r.open()
	first, leave := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", id))
	testwait.Until(t, patience, "the stream is open", func() bool { return first.code() == http.StatusOK })
	if w := r.do(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", id)); w.code() != http.StatusConflict {
		t.Errorf("a second stream: status %d, want 409", w.code())
	} else if c, _ := code(t, w); c != "-32600" {
		t.Errorf("a second stream: %s", w.text())
	}
	if first.ended() {
		t.Error("the second stream has displaced the first")
	}
	leave()
	<-first.done
	again, _ := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", id))
	testwait.Until(t, patience, "another stream is open", func() bool { return again.code() == http.StatusOK })
}

// Changes while a client has no stream are reported once, when it opens one.
func TestMissedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("echo"))
		r := newRig(t, mounted(b)).run()
		id := r.open()
		for _, name := range []string{"one", "two", "three"} {
			b.offer(t, mcp.Legacy, everything, tool(name))
			r.Changed("s")
			time.Sleep(time.Second)
		}
		kept, _ := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", id))
		synctest.Wait()
		if got := strings.Count(kept.next(), "notifications/tools/list_changed"); got != 1 {
			t.Errorf("told %d times of the changed list, want once", got)
		}
		b.offer(t, mcp.Legacy, everything, tool("four"))
		r.Changed("s")
		time.Sleep(time.Second)
		if got := kept.next(); got != "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n" {
			t.Errorf("told %q", got)
		}
	})
}

// A legacy client that disconnects has not cancelled; its call goes on. A modern client
// has (2026-07-28 streamable HTTP, Cancellation).
func TestDisconnect(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newScript(t, "s", era, tool("slow"))
				var cause error
				b.reply = func(ctx context.Context, _ *mcp.Call) (mcp.Answer, error) {
					select {
					case <-ctx.Done():
						cause = context.Cause(ctx)
						return mcp.Answer{}, cause
					case <-time.After(time.Minute):
						return answered(era, `{"content":[]}`), nil
					}
				}
				r := newRig(t, mounted(b)).run()
				req := modernRequest(modernBody("1", "tools/call", `"name":"s__slow"`, ""))
				if era == mcp.Legacy {
					req = httpRequest("POST", "/mcp", request("1", "tools/call", `{"name":"s__slow"}`), "Mcp-Session-Id", r.open())
				}
				w, leave := r.begin(req)
				time.Sleep(10 * time.Second) // it is a stream by now
				leave()
				synctest.Wait()
				if ended := cause != nil; ended != (era == mcp.Modern) {
					t.Errorf("after the client left, the call has ended: %t", ended)
				}
				time.Sleep(time.Minute)
				<-w.done
				want := "cancelled"
				if era == mcp.Legacy {
					want = "ok"
				}
				if got := r.ledger.outcomes(); len(got) != 1 || string(got[0]) != want {
					t.Errorf("audit %v, want %s", got, want)
				}
			})
		})
	}
}

func TestCancelOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("slow"))
		b.reply = func(ctx context.Context, _ *mcp.Call) (mcp.Answer, error) {
			<-ctx.Done()
			return mcp.Answer{}, context.Cause(ctx)
		}
		r := newRig(t, mounted(b)).run()
		id, other := r.open(), r.open()
		w, _ := r.begin(httpRequest("POST", "/mcp", request(`"a\u0062"`, "tools/call", `{"name":"s__slow"}`), "Mcp-Session-Id", id))
		synctest.Wait()
		cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"ab"}}`
		if got := r.post(cancel, "Mcp-Session-Id", other); got.code() != http.StatusAccepted || w.ended() {
			t.Errorf("another session cancels: status %d, ended %t", got.code(), w.ended())
		}
		r.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`, "Mcp-Session-Id", id)
		synctest.Wait()
		if w.ended() {
			t.Error("cancelled by something that is no id")
		}
		r.post(cancel, "Mcp-Session-Id", id)
		<-w.done
		if w.text() != "" {
			t.Errorf("a cancelled request was answered: %q", w.text())
		}
		if got := r.ledger.outcomes(); len(got) != 1 || got[0] != "cancelled" {
			t.Errorf("audit %v", got)
		}
	})
}

func TestBatches(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("echo"))
	b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
		call.Notify(mcp.NotifyProgress, []byte(`{"progress":1}`))
		return answered(mcp.Legacy, `{"content":[]}`), nil
	}
	r := newRig(t, mounted(b), func(o *Options, _ *Config) { o.Limits.Batch = 5 })
	w := r.post(strings.Replace(initBody, "2025-11-25", "2025-03-26", 1))
	id := w.field("Mcp-Session-Id")
	ping := request("1", "ping", "")
	tests := []struct {
		name, body string
		status     int
		want       string
	}{
		{
			"mixed", `[` + request("1", "ping", "") + `,{"jsonrpc":"2.0","method":"notifications/x"}, {"jsonrpc":"2.0","id":2},` +
				request(`"c"`, "tools/call", `{"name":"s__echo","_meta":{"progressToken":1}}`) + `]`, 200,
			`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"Invalid Request: neither \"method\" nor \"result\" nor \"error\""}},{"jsonrpc":"2.0","id":"c","result":{"content":[]}}]`,
		},
		{"notifications alone", `[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":9,"result":{}}]`, 202, ""},
		{"initialize inside", `[` + initBody + `]`, 200, `[{"jsonrpc":"2.0","id":0,"error":{"code":-32600,"message":"Invalid Request: initialize in a batch"}}]`},
		{"empty", `[]`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: an empty batch"}}`},
		{"no JSON", `[{]`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: expected a key at byte 2"}}`},
		{"too many", `[` + strings.Repeat(ping+",", 5) + ping + `]`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: a batch of more than 5 messages"}}`},
		{"a batch within", `[[` + ping + `]]`, 200, `[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: a batch is not accepted here"}}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := r.post(tt.body, "Mcp-Session-Id", id)
			if w.code() != tt.status || w.text() != tt.want {
				t.Errorf("status %d, %s\nwant %d, %s", w.code(), w.text(), tt.status, tt.want)
			}
		})
	}
	if got := len(r.ledger.all()); got != 1 {
		t.Errorf("%d audit entries, want one for the one call", got)
	}
	c := r.stdio(person("alice"))
	c.send(strings.Replace(initBody, "2025-11-25", "2025-03-26", 1), `[`+ping+`,`+request("2", "ping", "")+`]`)
	testwait.Until(t, patience, "the batch is answered", func() bool {
		return strings.Contains(c.out.String(), `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]`)
	})
}

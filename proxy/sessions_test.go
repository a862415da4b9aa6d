package proxy

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// capped sets the limits of sessions.
func capped(all, each int) func(*Options, *Config) {
	return func(o *Options, _ *Config) { o.Limits.Sessions, o.Limits.SessionsPerPrincipal = all, each }
}

// there reports whether a session is open, without using it.
func (r *rig) there(id string) bool { return r.sessions.get(id) != nil }

// Clients that leave without DELETE lock nobody out, and what they leave is bounded.
func TestAbandonedSessionsMakeRoom(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("echo"))
	most := 0
	r := newRig(t, mounted(b), func(o *Options, _ *Config) {
		o.Metrics = &Metrics{Sessions: func(n int) { most = max(most, n) }}
	})
	for i := range 1000 {
		if w := r.post(initBody); w.code() != http.StatusOK {
			t.Fatalf("initialize %d: status %d, %s", i+1, w.code(), w.text())
		}
	}
	if most != 100 || r.sessions.count() != 100 || len(r.sessions.of) != 1 {
		t.Errorf("at most %d sessions, %d at the end, want 100", most, r.sessions.count())
	}
	if len(b.ended) != 900 {
		t.Errorf("the server was told of %d ends, want 900", len(b.ended))
	}
}

// The session that has been idle for longest makes room, and its client is told to
// start again.
func TestLongestIdleMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, capped(10, 3))
		var ids []string
		for range 3 {
			ids = append(ids, r.open())
			time.Sleep(2 * time.Minute)
		}
		r.legacy(ids[0], "1", "ping", "")
		ids = append(ids, r.open())
		if got := r.legacy(ids[1], "1", "ping", "").code(); got != http.StatusNotFound {
			t.Errorf("the session that was idle for longest: status %d, want 404", got)
		}
		for _, i := range []int{0, 2, 3} {
			if !r.there(ids[i]) {
				t.Errorf("session %d is gone", i)
			}
		}
		if got := r.log.String(); got != "" {
			t.Errorf("the log says %s", got)
		}
		r.open("Authorization", "Bearer bob") // within his own limit
		r.open()
		r.open()
		if got := r.log.String(); strings.Count(got, "limits.sessions_per_principal") != 1 {
			t.Errorf("sessions that live shortly are told of once: %s", got)
		}
	})
}

// Busy sessions stay, and the refusal says what to do.
func TestSessionsUnderWayStay(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("slow"), `tool {"name":"long","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`)
	b.listing.Capabilities = []byte(`{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`)
	release, state := make(chan struct{}), "working"
	b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
		switch {
		case call.Method == mcp.MethodTaskGet:
			return answered(mcp.Legacy, `{"taskId":"t","status":"`+state+`"}`), nil
		case strings.Contains(string(call.Params), `"long"`):
			return answered(mcp.Legacy, `{"task":{"taskId":"t","status":"working"}}`), nil
		}
		<-release
		return answered(mcp.Legacy, `{"content":[]}`), nil
	}
	r := newRig(t, mounted(b), capped(100, 4))
	request1 := func(name, more string) string { return request("1", "tools/call", `{"name":"s__`+name+`"`+more+`}`) }

	calling, streaming, tasking := r.open(), r.open(), r.open()
	call, _ := r.begin(httpRequest("POST", "/mcp", request1("slow", ""), "Mcp-Session-Id", calling))
	kept, leave := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", streaming))
	sse, _ := r.begin(httpRequest("GET", "/sse", ""))
	made := r.post(request1("long", `,"task":{}`), "Mcp-Session-Id", tasking)
	task, _ := mcp.LookupString([]byte(made.text()), "result", "task", "taskId")
	if task == "" {
		t.Fatalf("no task: %s", made.text())
	}
	testwait.Until(t, patience, "both streams are open and both calls at the server", func() bool {
		return kept.code() == http.StatusOK && strings.Contains(sse.text(), "endpoint") && len(b.seen(mcp.MethodToolsCall)) == 2
	})

	w := r.post(initBody)
	if c, id := code(t, w); w.code() != http.StatusServiceUnavailable || c != "1005" || id != "0" || w.field("Retry-After") != "5" {
		t.Errorf("status %d, Retry-After %q: %s", w.code(), w.field("Retry-After"), w.text())
	}
	for _, word := range []string{"too_many_sessions", "limits.sessions_per_principal", "DELETE", `"limit":4`} {
		if !strings.Contains(w.text(), word) {
			t.Errorf("the refusal lacks %q: %s", word, w.text())
		}
	}
	if got := r.do(httpRequest("GET", "/sse", "")); got.code() != http.StatusServiceUnavailable || got.field("Retry-After") == "" {
		t.Errorf("/sse: status %d", got.code())
	}
	if err := r.ServeStdio(t.Context(), person("alice"), Scope{}, strings.NewReader(""), &syncBuffer{}); err == nil {
		t.Error("stdio was served")
	}
	for name, id := range map[string]string{"call": calling, "stream": streaming, "task": tasking} {
		if !r.there(id) {
			t.Errorf("the session with a %s is gone", name)
		}
	}

	// Each of them makes room once it is idle.
	for i, end := range []func(){
		func() { close(release); <-call.done },
		func() { leave(); <-kept.done },
		func() {
			state = "completed"
			r.legacy(tasking, "2", "tasks/get", `{"taskId":"`+task+`"}`)
		},
	} {
		end()
		stays := r.open()
		r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", stays))
		testwait.Until(t, patience, "the stream is attached", func() bool { _, resting := r.sessions.get(stays).idleSince(); return !resting })
		if got := r.post(initBody); got.code() != http.StatusServiceUnavailable {
			t.Errorf("%d: status %d, want 503 again", i, got.code())
		}
	}
	if r.there(calling) || r.there(streaming) || r.there(tasking) {
		t.Error("a session that was over did not make room")
	}
}

// At the limit of the gateway, a caller's new session displaces one of its own, else
// one of a caller with more sessions.
func TestSessionsOfOthersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		people := bearers{}
		for _, name := range []string{"alice", "bob", "carol", "dave"} {
			people[name] = person(name)
		}
		r := newRig(t, nil, capped(6, 100), func(o *Options, _ *Config) { o.Authenticator = people })
		open := func(who string) string {
			defer time.Sleep(time.Minute)
			return r.open("Authorization", "Bearer "+who)
		}
		count := func() (out []int) {
			for _, name := range []string{"alice", "bob", "carol", "dave"} {
				out = append(out, len(r.sessions.listOf(person(name).Key())))
			}
			return out
		}
		busy := func(who, id string) {
			r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", id, "Authorization", "Bearer "+who))
			synctest.Wait()
		}
		var alices []string
		for range 3 {
			alices = append(alices, open("alice"))
		}
		for _, who := range []string{"bob", "bob", "carol"} {
			open(who)
		}
		for range 20 { // opening many does not displace those of others
			open("carol")
		}
		if got := count(); !slices.Equal(got, []int{3, 2, 1, 0}) {
			t.Errorf("after many of carol: %v", got)
		}
		if !r.there(alices[0]) {
			t.Error("the oldest session of alice is gone")
		}
		open("dave") // has none, so the caller with the most makes room
		if got := count(); !slices.Equal(got, []int{2, 2, 1, 1}) || r.there(alices[0]) {
			t.Errorf("after the first of dave: %v", got)
		}
		for _, who := range []string{"alice", "bob", "carol", "dave"} {
			for _, s := range r.sessions.listOf(person(who).Key()) {
				if who != "bob" {
					busy(who, s.id)
				}
			}
		}
		// Carol has one that is busy, bob two that are idle: she may have as many as
		// he.
		busy("carol", open("carol"))
		if got := count(); !slices.Equal(got, []int{2, 1, 2, 1}) {
			t.Errorf("after the second of carol: %v", got)
		}
		w := r.post(initBody, "Authorization", "Bearer carol")
		if w.code() != http.StatusServiceUnavailable || !strings.Contains(w.text(), "(limits.sessions)") {
			t.Errorf("status %d: %s", w.code(), w.text())
		}
		if got := count(); !slices.Equal(got, []int{2, 1, 2, 1}) {
			t.Errorf("after the third of carol: %v", got)
		}
	})
}

// A session that a request uses stays until the request has ended.
func TestHeldSessionStays(t *testing.T) {
	r := newRig(t, nil, capped(10, 1))
	id := r.open()
	s := r.session(id, person("alice"), Scope{})
	if w := r.post(initBody); w.code() != http.StatusServiceUnavailable {
		t.Errorf("status %d while the only session is held", w.code())
	}
	s.release()
	r.open()
	if r.there(id) {
		t.Error("a session that nobody holds did not make room")
	}
}

// BenchmarkFullSessionTable measures what one more session costs.
func BenchmarkFullSessionTable(b *testing.B) {
	for _, n := range []struct{ principals, each int }{{1, 100}, {100, 100}, {10000, 1}} {
		b.Run(fmt.Sprintf("%dx%d", n.principals, n.each), func(b *testing.B) {
			r := newRig(b, nil, capped(n.principals*n.each, 100))
			for p := range n.principals {
				for range n.each {
					s, err := r.openSession(person(fmt.Sprint("p", p)), Scope{}, "http", nil)
					if err != nil {
						b.Fatal(err)
					}
					s.release()
				}
			}
			newcomer := person("p0")
			if n.each == 1 {
				newcomer = person("new")
			}
			for b.Loop() {
				s, err := r.openSession(newcomer, Scope{}, "http", nil)
				if err != nil {
					b.Fatal(err)
				}
				s.release()
			}
		})
	}
}

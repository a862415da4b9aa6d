package proxy

import (
	"context"
	"errors"
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

// lender authenticates alice for a minute at a time, until it is told otherwise.
type lender struct {
	mu    sync.Mutex
	id    *gate.Identity
	err   error
	asked int
}

func (l *lender) Authenticate(r *http.Request) (*gate.Identity, error) {
	id, _, err := l.AuthenticateUntil(r)
	return id, err
}

func (l *lender) AuthenticateUntil(*http.Request) (*gate.Identity, time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.err != nil {
		return nil, time.Time{}, l.err
	}
	return l.id, time.Now().Add(time.Minute), nil
}

func (l *lender) now(id *gate.Identity, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.err = id, err
}

func (l *lender) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

func lending(l *lender) func(*Options, *Config) {
	return func(o *Options, _ *Config) { o.Authenticator = l }
}

// withGroups is alice with other rights.
func withGroups(groups ...string) *gate.Identity {
	return gate.NewIdentity(gate.Identity{Principal: person("alice").Principal, Groups: groups})
}

// A stream lives only as long as its caller is authenticated. The credential is checked
// each time the answer expires.
func TestStreamsEndWithTheVerdict(t *testing.T) {
	gone := errors.New("revoked")
	for _, tt := range []struct {
		name string
		id   *gate.Identity
		err  error
		ends bool
	}{
		{"as before", person("alice"), nil, false},
		{"refused", nil, gate.ErrBadCredential, true},
		{"nobody can say", nil, gone, true},
		{"somebody else", person("bob"), nil, true},
		{"other rights", withGroups("staff"), nil, true},
		{"an empty answer", nil, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lender{id: person("alice")}
				r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("a"))), lending(l)).run()
				session := r.open()
				streams := map[string]*recorder{}
				streams["GET"], _ = r.begin(httpRequest(http.MethodGet, "/mcp", "", mcp.HeaderSession, session))
				streams["SSE"], _ = r.begin(httpRequest(http.MethodGet, "/sse", ""))
				streams["listen"], _ = r.begin(modernRequest(modernBody("1", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`, "")))
				time.Sleep(150 * time.Second) // two checks of each
				for name, w := range streams {
					if w.code() != http.StatusOK || w.ended() {
						t.Fatalf("%s after two looks: %d %s", name, w.code(), w.text())
					}
				}
				if got := l.count(); got != 4+2*3 {
					t.Errorf("asked %d times, want for 4 requests and twice more for 3 streams", got)
				}
				l.now(tt.id, tt.err)
				time.Sleep(time.Minute)
				for name, w := range streams {
					if w.ended() != tt.ends {
						t.Errorf("%s has ended: %v", name, w.ended())
					}
				}
			})
		})
	}
}

// A call ends with its caller's access. A modern client gets a status. What a legacy
// server sends later is stored for its client.
func TestCallsEndWithTheVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{id: person("alice")}
		b := newScript(t, "s", mcp.Legacy, tool("slow"))
		var ended []error
		b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
			select {
			case <-ctx.Done():
				ended = append(ended, context.Cause(ctx))
				return mcp.Answer{}, context.Cause(ctx)
			case <-time.After(5 * time.Minute):
				return answered(mcp.Legacy, `{"content":[]}`), nil
			}
		}
		r := newRig(t, mounted(b), lending(l), func(o *Options, _ *Config) { o.Limits.JSONWait = time.Hour }).run()
		session := r.open()
		modern, _ := r.begin(modernRequest(modernBody("1", "tools/call", `"name":"s__slow"`, "")))
		legacy, _ := r.begin(httpRequest(http.MethodPost, "/mcp", request("2", "tools/call", `{"name":"s__slow"}`), mcp.HeaderSession, session))
		synctest.Wait()
		l.now(nil, gate.ErrBadCredential)
		time.Sleep(2 * time.Minute)
		if modern.code() != http.StatusUnauthorized || modern.field("WWW-Authenticate") == "" || !strings.Contains(modern.text(), `"id":1,"error"`) {
			t.Errorf("the modern call: %d %s", modern.code(), modern.text())
		}
		if !legacy.ended() || strings.Contains(legacy.text(), "content") {
			t.Errorf("the legacy call goes on for its old client: %s", legacy.text())
		}
		if len(ended) != 1 {
			t.Errorf("the server was told %v, want of the modern call alone", ended)
		}
		l.now(person("alice"), nil)
		time.Sleep(5 * time.Minute)
		last := ""
		for line := range strings.Lines(legacy.text()) {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				last = strings.TrimSpace(id)
			}
		}
		got := r.do(httpRequest(http.MethodGet, "/mcp", "", mcp.HeaderSession, session, mcp.HeaderLastEvent, last))
		if !strings.Contains(got.text(), `"content":[]`) {
			t.Errorf("the rest from %q: %s", last, got.text())
		}
		outcomes := []audit.Outcome{}
		for _, e := range r.ledger.all() {
			outcomes = append(outcomes, e.Outcome)
		}
		if !slices.Equal(outcomes, []audit.Outcome{audit.OutcomeCancelled, audit.OutcomeOK}) {
			t.Errorf("entries %v", outcomes)
		}
	})
}

// scopeRules require a scope by exposed name and record who was checked.
type scopeRules struct {
	needs map[string]string

	mu    sync.Mutex
	asked []string
}

var errScope = errors.New("the token lacks the scope write")

func (s *scopeRules) Check(id *gate.Identity, names gate.Names) error {
	exposed := names.Exposed
	s.mu.Lock()
	s.asked = append(s.asked, exposed)
	s.mu.Unlock()
	if needed := s.needs[exposed]; needed != "" && !slices.Contains(id.Scopes, needed) {
		return errScope
	}
	return nil
}

// stepUp is a resource whose challenges repeat what it was asked.
type stepUp struct{ noResource }

func (stepUp) Refuse(h http.Header, r *http.Request, err error) (status int, text string) {
	if errors.Is(err, errScope) {
		h.Set("WWW-Authenticate", "Bearer error=insufficient_scope, path="+r.URL.Path)
		return http.StatusForbidden, "x"
	}
	return noResource{}.Refuse(h, r, err)
}

func scoped(rules *scopeRules) func(*Options, *Config) {
	return func(o *Options, c *Config) { o.Resource, c.Scopes = stepUp{}, rules }
}

// Over HTTP a missing scope is a status and a challenge; inside JSON-RPC it is a
// refusal. Nothing is charged, nothing reaches the server, and one entry is written.
func TestScopes(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("ok"), tool("write"), `prompt {"name":"write"}`, `resource {"uri":"file:///w","name":"r"}`)
	rules := &scopeRules{needs: map[string]string{"s__write": "write", "s+file:///w": "write"}}
	r := newRig(t, mounted(b), scoped(rules)).run()
	session := r.open()
	for _, tt := range []struct{ method, params, members string }{
		{"tools/call", `{"name":"s__write"}`, `"name":"s__write"`},
		{"prompts/get", `{"name":"s__write"}`, `"name":"s__write"`},
		{"resources/read", `{"uri":"s+file:///w"}`, `"uri":"s+file:///w"`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"s__write"},"argument":{"name":"a","value":""}}`, `"ref":{"type":"ref/prompt","name":"s__write"},"argument":{"name":"a","value":""}`},
	} {
		before := len(r.ledger.all())
		for binding, w := range map[string]*recorder{"modern": r.modern("7", tt.method, tt.members), "legacy": r.legacy(session, "7", tt.method, tt.params)} {
			if w.code() != http.StatusForbidden || w.field("WWW-Authenticate") != "Bearer error=insufficient_scope, path=/mcp" ||
				!strings.HasPrefix(w.text(), `{"jsonrpc":"2.0","id":7,"error":{"code":1002,`) || !strings.Contains(w.text(), `"kind":"insufficient_scope"`) {
				t.Errorf("%s of a %s client: %d %s", tt.method, binding, w.code(), w.text())
			}
		}
		entries := r.ledger.all()[before:]
		if len(entries) != 2 || entries[0].Outcome != audit.OutcomeDenied || entries[0].Code != "insufficient_scope" || entries[1].Code != "insufficient_scope" {
			t.Errorf("%s: entries %+v", tt.method, entries)
		}
	}
	if got := r.legacy(session, "8", "resources/subscribe", `{"uri":"s+file:///w"}`); got.code() != http.StatusForbidden {
		t.Errorf("subscribe: %d %s", got.code(), got.text())
	}
	out, err := r.talk(person("alice"), initBody, request("1", "tools/call", `{"name":"s__write"}`), request("2", "prompts/get", `{"name":"s__write"}`))
	if err != nil || !strings.Contains(out, `"isError":true`) || !strings.Contains(out, `"id":2,"error":{"code":1002,`) || strings.Count(out, "lacks the scope write") != 2 {
		t.Errorf("on stdio: %v %s", err, out)
	}
	if calls := b.seen(""); len(calls) != 0 {
		t.Errorf("the server was asked %+v", calls)
	}
	if got := r.modern("9", "tools/call", `"name":"s__ok"`); got.code() != http.StatusOK || len(b.seen(mcp.MethodToolsCall)) != 1 {
		t.Errorf("what needs none: %d %s", got.code(), got.text())
	}
}

// What may not be viewed is unknown, whatever scopes it requires: they are not even
// looked up.
func TestScopesTellNothingOfWhatIsHidden(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("secret"), tool("barred"))
	rules := &scopeRules{needs: map[string]string{"s__secret": "write", "s__absent": "write", "s__barred": "write"}}
	r := newRig(t, mounted(b), hide("secret"), scoped(rules)).run()
	session := r.open()
	hidden, absent := r.modern("1", "tools/call", `"name":"s__secret"`), r.modern("1", "tools/call", `"name":"s__absent"`)
	if strings.ReplaceAll(hidden.text(), "secret", "absent") != absent.text() || hidden.code() != absent.code() || hidden.field("WWW-Authenticate") != "" {
		t.Errorf("hidden %d %s\nabsent %d %s", hidden.code(), hidden.text(), absent.code(), absent.text())
	}
	old, none := r.legacy(session, "1", "tools/call", `{"name":"s__secret"}`), r.legacy(session, "1", "tools/call", `{"name":"s__absent"}`)
	if strings.ReplaceAll(old.text(), "secret", "absent") != none.text() || old.code() != none.code() {
		t.Errorf("hidden %d %s\nabsent %d %s", old.code(), old.text(), none.code(), none.text())
	}
	if len(rules.asked) != 0 {
		t.Errorf("scopes of %v were looked up", rules.asked)
	}
	if got := r.modern("1", "tools/call", `"name":"s__barred"`); got.code() != http.StatusForbidden {
		t.Errorf("what may be viewed: %d %s", got.code(), got.text())
	}
}

// The same subject of another tenant or issuer is somebody else: it has no access to
// the other's session, replay, subscription, cursor, call, suspended call or task.
func TestSameSubjectOfOthers(t *testing.T) {
	people := bearers{"alice": person("alice")}
	for name, p := range map[string]gate.Principal{
		"tenant": {Issuer: "test", Tenant: "globex", Subject: "alice"},
		"issuer": {Issuer: "test2", Subject: "alice"},
		"glued":  {Issuer: "test", Tenant: "default5:alice", Subject: ""},
	} {
		people[name] = gate.NewIdentity(gate.Identity{Principal: p})
	}
	known := func(o *Options, _ *Config) { o.Authenticator = people }
	for _, who := range []string{"tenant", "issuer", "glued"} {
		other := []string{"Authorization", "Bearer " + who}
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				suspended := newRig(t, mounted(askingBackend(t, askForm)), known).run()
				w := suspended.modern("1", "tools/call", `"name":"s__ask"`)
				if got := suspended.retry(w, `"name":"s__ask"`, `{"q1":{"action":"accept"}}`, other...); got.text() != badState {
					t.Errorf("a suspended call: %s", got.text())
				}
				if got := suspended.retry(w, `"name":"s__ask"`, `{"q1":{"action":"accept"}}`); got.text() == badState {
					t.Errorf("the suspended call is lost for its owner: %s", got.text())
				}
			})
			rounds := newRig(t, mounted(asking(t, 1)), known)
			state := stateOf(t, rounds.modern("1", "tools/call", `"name":"s__ask"`))
			if got := rounds.again(state, "", other...); got.text() != badState {
				t.Errorf("a round: %s", got.text())
			}
			tasks := newRig(t, mounted(newWorker(t, mcp.Modern, working, completed).script), known)
			id := taskID(t, tasks.tasked("1", "tools/call", `"name":"s__job"`))
			for _, method := range []string{"tasks/get", "tasks/cancel"} {
				if got := tasks.tasked("2", method, ofTask(id), other...); got.text() != noSuchTask {
					t.Errorf("%s: %s", method, got.text())
				}
			}
			otherSession(t, known, other)
		})
	}
}

// otherSession tries the sessions, events, subscriptions and cursors of alice as
// somebody else.
func otherSession(t *testing.T, known func(*Options, *Config), other []string) {
	t.Helper()
	b := newScript(t, "s", mcp.Legacy, tool("a"), tool("b"), `resource {"uri":"file:///r","name":"r"}`)
	r := newRig(t, mounted(b), known, func(o *Options, _ *Config) { o.Limits.Page = 1 }).run()
	session, theirs := r.open(), r.open(other...)
	if got := r.legacy(session, "1", "ping", "", other...); got.code() != http.StatusNotFound {
		t.Errorf("a session: %d %s", got.code(), got.text())
	}
	own := r.sessions.get(session)
	event := r.front.eventID(own, 1, 0)
	if got := r.do(httpRequest(http.MethodGet, "/mcp", "", append(other, mcp.HeaderSession, theirs, mcp.HeaderLastEvent, event)...)); got.code() != http.StatusBadRequest {
		t.Errorf("an event: %d %s", got.code(), got.text())
	}
	for _, s := range []struct {
		id      string
		headers []string
	}{{session, nil}, {theirs, other}} {
		if got := r.legacy(s.id, "1", "resources/subscribe", `{"uri":"s+file:///r"}`, s.headers...); got.code() != http.StatusOK {
			t.Errorf("subscribe: %d %s", got.code(), got.text())
		}
	}
	principals := map[string]bool{}
	for _, c := range b.seen(mcp.MethodSubscribe) {
		principals[c.Principal] = true
	}
	if len(principals) != 2 {
		t.Errorf("two callers subscribed as %v", principals)
	}
	page := r.modern("1", "tools/list", "")
	cursor, _ := mcp.LookupString([]byte(page.text()), "result", "nextCursor")
	if cursor == "" {
		t.Fatalf("no cursor: %s", page.text())
	}
	if got := r.modern("2", "tools/list", `"cursor":"`+cursor+`"`, other...); !strings.Contains(got.text(), "Invalid cursor") {
		t.Errorf("a cursor: %s", got.text())
	}
}

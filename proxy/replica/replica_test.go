package replica_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy/replica"
)

func keyring(t testing.TB, secret string) *seal.Keyring {
	t.Helper()
	ring, err := seal.NewKeyring(seal.Key{ID: "k", Secret: []byte(strings.Repeat(secret, 32))})
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func session() replica.Session {
	return replica.Session{
		Owner: "a", Principal: []byte("who"), Version: "2025-11-25", Capabilities: json.RawMessage(`{"roots":{}}`), ClientInfo: json.RawMessage(`{"name":"c"}`),
	}
}

// What a session id carries comes back whole, and nobody can change it.
func TestSession(t *testing.T) {
	keys := keyring(t, "a")
	id, err := session().Seal(keys)
	if err != nil {
		t.Fatal(err)
	}
	again, err := session().Seal(keys)
	if err != nil || again == id {
		t.Errorf("two sessions have one id, %v", err)
	}
	got, err := replica.OpenSession(keys, id)
	if err != nil || got.Owner != "a" || string(got.Principal) != "who" || string(got.Capabilities) != `{"roots":{}}` || !got.Rebuildable(time.Now()) {
		t.Errorf("%+v, %v", got, err)
	}
	if got.Rebuildable(time.Now().Add(8 * 24 * time.Hour)) {
		t.Error("it can be rebuilt for ever")
	}
	_, sealed := replica.Cut(id)
	for name, forged := range map[string]string{
		"of another gateway": replica.Tag("b", sealed), "of nobody": sealed, "changed": id[:len(id)-1] + "_", "empty": "", "a tag alone": "a~", "text": "a~k.x",
	} {
		if got, err := replica.OpenSession(keys, forged); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := replica.OpenSession(keyring(t, "b"), id); err == nil {
		t.Error("it opens with another key")
	}
	large := session()
	large.Capabilities = json.RawMessage(`{"x":"` + strings.Repeat("x", 3000) + `"}`)
	if id, err = large.Seal(keys); err != nil || len(id) > 1000 {
		t.Fatalf("%d characters, %v", len(id), err)
	}
	if got, err := replica.OpenSession(keys, id); err != nil || got.Rebuildable(time.Now()) {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzOpenSession(f *testing.F) {
	keys := keyring(f, "a")
	id, err := session().Seal(keys)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(id[:len(id)-2] + "AA")
	f.Add("a~k.AAAA")
	f.Fuzz(func(t *testing.T, forged string) {
		if got, err := replica.OpenSession(keys, forged); err == nil {
			t.Errorf("%q opens: %+v", forged, got)
		}
		if owner, sealed := replica.Cut(forged); owner != "" && replica.Tag(owner, sealed) != forged {
			t.Errorf("%q becomes %q", forged, replica.Tag(owner, sealed))
		}
	})
}

// peers answer as they are told, one after the other.
type peers struct {
	self  string
	homes []string // of each question
	alive bool
	lost  []*replica.LostError // of each request; nil for one that is answered
	asked []string
}

func (p *peers) Self() string      { return p.self }
func (p *peers) Alive(string) bool { return p.alive }

func (p *peers) Home(string, string, bool) string {
	at := p.homes[0]
	if len(p.homes) > 1 {
		p.homes = p.homes[1:]
	}
	return at
}

func (p *peers) Forward(w http.ResponseWriter, _ *http.Request, to string, _ replica.Message) error {
	p.asked = append(p.asked, to)
	lost := p.lost[0]
	if len(p.lost) > 1 {
		p.lost = p.lost[1:]
	}
	if lost != nil {
		return lost
	}
	w.WriteHeader(http.StatusTeapot)
	return nil
}

// A request is answered once, and sent again only where that can have no double effect.
func TestForward(t *testing.T) {
	never, perhaps := &replica.LostError{Err: errors.New("refused")}, &replica.LostError{MayHaveRun: true, Err: errors.New("reset")}
	for name, tt := range map[string]struct {
		peers   peers
		message replica.Message
		status  int // 0 where it is served here
		asked   []string
		said    string
	}{
		"its own":                         {peers{homes: []string{"me"}}, replica.Message{}, 0, nil, ""},
		"another's":                       {peers{homes: []string{"a"}, lost: []*replica.LostError{nil}}, replica.Message{}, http.StatusTeapot, []string{"a"}, ""},
		"a call that was not sent":        {peers{homes: []string{"a", "b"}, lost: []*replica.LostError{never, nil}}, replica.Message{ID: "1"}, http.StatusTeapot, []string{"a", "b"}, ""},
		"a call that was not sent, to me": {peers{homes: []string{"a", "me"}, lost: []*replica.LostError{never}}, replica.Message{ID: "1"}, 0, []string{"a"}, ""},
		"a call that may have run":        {peers{homes: []string{"a", "b"}, lost: []*replica.LostError{perhaps, nil}}, replica.Message{ID: "1"}, http.StatusOK, []string{"a"}, `"may_have_run":true`},
		"a list that may have run":        {peers{homes: []string{"a", "b"}, lost: []*replica.LostError{perhaps, nil}}, replica.Message{ID: "1", Repeatable: true}, http.StatusTeapot, []string{"a", "b"}, ""},
		"nobody answers":                  {peers{homes: []string{"a"}, lost: []*replica.LostError{never}}, replica.Message{ID: "1"}, http.StatusServiceUnavailable, []string{"a", "a", "a"}, `"may_have_run":false`},
	} {
		tt.peers.self = "me"
		rt := &replica.Router{Peers: &tt.peers, Keys: keyring(t, "a")}
		w := httptest.NewRecorder()
		passed := rt.Session(w, httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody), "a~x", tt.message)
		if passed != (tt.status != 0) || passed && w.Code != tt.status || !slices.Equal(tt.peers.asked, tt.asked) || !strings.Contains(w.Body.String(), tt.said) {
			t.Errorf("%s: %v, %d %s, asked %v", name, passed, w.Code, w.Body, tt.peers.asked)
		}
	}
}

// A request that another gateway has passed on stays here, and so does all that names
// nobody.
func TestStays(t *testing.T) {
	p := &peers{self: "me", homes: []string{"a"}, alive: true, lost: []*replica.LostError{nil}}
	rt := &replica.Router{Peers: p, Keys: keyring(t, "a")}
	r := httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody)
	forwarded := r.WithContext(replica.WithForwarded(context.Background()))
	w := httptest.NewRecorder()
	var alone *replica.Router
	if rt.Session(w, forwarded, "a~x", replica.Message{}) || rt.Owned(w, forwarded, "a", replica.Message{}) || rt.Session(w, r, "x", replica.Message{}) || rt.Owned(w, r, "", replica.Message{}) ||
		alone.Session(w, r, "a~x", replica.Message{}) || alone.Owned(w, r, "a", replica.Message{}) || alone.Self() != "" || alone.Carried("a~x", "who") != nil {
		t.Error("it is passed on")
	}
	if !rt.Owned(w, r, "a", replica.Message{}) {
		t.Error("what another owns is served here")
	}
	p.alive = false
	if rt.Owned(w, r, "a", replica.Message{}) {
		t.Error("what nobody has is passed on")
	}
}

// Only its principal gets a session of a gateway that is gone.
func TestCarried(t *testing.T) {
	keys := keyring(t, "a")
	id, err := session().Seal(keys)
	if err != nil {
		t.Fatal(err)
	}
	rt := &replica.Router{Peers: &peers{self: "me"}, Keys: keys}
	if got := rt.Carried(id, "who"); got == nil || mcp.Version(got.Version) != mcp.V20251125 {
		t.Errorf("%+v", got)
	}
	if rt.Carried(id, "other") != nil {
		t.Error("another principal gets it")
	}
	owner := &replica.Router{Peers: &peers{self: "a"}, Keys: keys}
	if owner.Carried(id, "who") != nil {
		t.Error("a session that has ended is rebuilt by its own gateway")
	}
}

// An answer to a question goes to the gateway that asked, and no two sessions ask with the same
// ids, so that none takes the answer to another's question for its own.
func TestAsker(t *testing.T) {
	p := &peers{self: "me", homes: []string{"b"}, alive: true, lost: []*replica.LostError{nil}}
	rt := &replica.Router{Peers: p, Keys: keyring(t, "a")}
	one, two := rt.NewAsker(), rt.NewAsker()
	if one == two || (*replica.Router)(nil).NewAsker() != "toolgate-" {
		t.Errorf("%q and %q", one, two)
	}
	of := func(text string) replica.Message {
		t.Helper()
		msg, err := mcp.Parse([]byte(text), mcp.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return replica.Of(&msg, []byte(text))
	}
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"` + one + `7","result":{}}`:                     "me",
		`{"jsonrpc":"2.0","id":"toolgate-a-x-7","result":{}}`:                   "a",
		`{"jsonrpc":"2.0","id":"toolgate-7","result":{}}`:                       "",
		`{"jsonrpc":"2.0","id":7,"result":{}}`:                                  "",
		`{"jsonrpc":"2.0","id":"` + one + `7","method":"tools/list"}`:           "",
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`:                  "",
		`{"jsonrpc":"2.0","id":"other-a-x-7","error":{"code":1,"message":"m"}}`: "",
	} {
		if got := of(text).Asker; got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	answer := of(`{"jsonrpc":"2.0","id":"toolgate-a-x-7","result":{}}`)
	r := httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody)
	if !rt.Session(httptest.NewRecorder(), r, "c~x", answer) || !slices.Equal(p.asked, []string{"a"}) {
		t.Errorf("asked %v, want the gateway of the question", p.asked)
	}
	if own := of(`{"jsonrpc":"2.0","id":"` + one + `7","result":{}}`); rt.Session(httptest.NewRecorder(), r, "c~x", own) {
		t.Error("the answer to a question of this gateway is passed on")
	}
	p.alive = false
	if !rt.Session(httptest.NewRecorder(), r, "c~x", answer) || !slices.Equal(p.asked, []string{"a", "b"}) {
		t.Errorf("asked %v, want the session's home once the gateway of the question is gone", p.asked)
	}
}

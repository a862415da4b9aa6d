package proxy

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/replica"
)

// others are the gateways "me" and "a", of which a may be gone, and what both keep.
type others struct {
	mu    sync.Mutex
	there bool // a
	kept  map[string]replica.State
	saves int
}

func (*others) Self() string { return "me" }

func (o *others) Alive(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.there || id == "me"
}

func (o *others) Home(owner, _ string, _ bool) string {
	if o.Alive(owner) {
		return owner
	}
	return "me"
}

func (*others) Forward(w http.ResponseWriter, _ *http.Request, _ string, _ replica.Message) error {
	w.WriteHeader(http.StatusTeapot)
	return nil
}

func (o *others) Save(id string, s replica.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept[id] = s
	o.saves++
}

func (o *others) Load(_ context.Context, id string) (replica.State, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept[id], nil
}

// comes says whether a is there.
func (o *others) comes(there bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.there = there
}

// of returns what is kept of a session, and how often anything was kept.
func (o *others) of(id string) (replica.State, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept[id], o.saves
}

// withOthers is a gateway that is one of two.
func withOthers(t *testing.T) (*rig, *others) {
	o := &others{kept: map[string]replica.State{}}
	b := newScript(t, "s", mcp.Legacy, tool("a"))
	return newRig(t, mounted(b), func(opts *Options, _ *Config) { opts.Replicas, opts.SessionStates = o, o }).run(), o
}

// sessionOfA returns the id of a session that gateway a has opened for the rig's client.
func (r *rig) sessionOfA() string {
	r.t.Helper()
	id, err := replica.Session{Owner: "a", Principal: []byte(person("alice").Key()), Version: string(mcp.V20251125), Capabilities: []byte(`{}`)}.Seal(r.opts.Keys)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// level sets the level of a session.
func (r *rig) level(session, level string) int {
	r.t.Helper()
	return r.post(request("1", "logging/setLevel", `{"level":"`+level+`"}`), "Mcp-Session-Id", session).code()
}

// A session whose gateway is back ends here, with its stream, so that its client goes there;
// what the client has set here is kept for it.
func TestSessionGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := withOthers(t)
		id := r.sessionOfA()
		if got := r.level(id, "error"); got != http.StatusOK {
			t.Fatalf("it does not go on here: %d", got)
		}
		stream, leave := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", id, "Accept", "text/event-stream"))
		defer leave()
		time.Sleep(2 * elsewhereEvery)
		synctest.Wait()
		if r.sessions.count() != 1 {
			t.Fatal("it ends while it belongs here")
		}
		o.comes(true)
		time.Sleep(elsewhereEvery)
		<-stream.done
		if n := r.sessions.count(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		if state, _ := o.of(id); state.Level != "error" || state.Ended {
			t.Errorf("%+v is kept", state)
		}
		if got := r.level(id, "info"); got != http.StatusTeapot {
			t.Errorf("a request is not passed on: %d", got)
		}
	})
}

// What a client has ended no gateway goes on with, and its own gateway ends it too, where the
// client has ended it elsewhere.
func TestEndedSessionStaysEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := withOthers(t)
		id := r.sessionOfA()
		if got := r.level(id, "error"); got != http.StatusOK {
			t.Fatalf("it does not go on here: %d", got)
		}
		if got := r.do(httpRequest("DELETE", "/mcp", "", "Mcp-Session-Id", id)).code(); got != http.StatusNoContent {
			t.Fatalf("it does not end: %d", got)
		}
		if got := r.level(id, "error"); got != http.StatusNotFound {
			t.Errorf("it comes back: %d", got)
		}
		time.Sleep(time.Second) // a change that waited to be kept must not replace the end
		if state, _ := o.of(id); !state.Ended {
			t.Errorf("%+v is kept", state)
		}

		own, ended := r.open(), r.open()
		o.Save(ended, replica.State{Ended: true})
		o.Save(own, replica.State{Level: "alert"})
		Returned(r.Gateway)
		synctest.Wait()
		if got := r.level(ended, "error"); got != http.StatusNotFound {
			t.Errorf("a session goes on that its client has ended elsewhere: %d", got)
		}
		s := r.sessions.get(own)
		if s == nil {
			t.Fatal("a session that has not ended is gone")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.level != "alert" || !s.missed[mcp.NotifyToolsChanged] {
			t.Errorf("level %q, missed %v", s.level, s.missed)
		}
	})
}

// A client that sets much at once has it kept once, and what was set last when its session
// ends with the gateway.
func TestStatesAreKeptTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := withOthers(t)
		id := r.open()
		for range 50 {
			for _, level := range []string{"error", "info", "debug"} {
				r.level(id, level)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if state, saves := o.of(id); state.Level != "debug" || saves > 2 {
			t.Errorf("%+v after %d writes", state, saves)
		}
		r.level(id, "alert")
		if s := r.sessions.get(id); s != nil {
			s.end(errSessionEnded)
		}
		if state, _ := o.of(id); state.Level != "alert" {
			t.Errorf("%+v is kept at the end", state)
		}
		if !slices.Equal(sortedKeys(o.kept), []string{id}) {
			t.Errorf("kept: %v", sortedKeys(o.kept))
		}
	})
}

// A client of 2026-07-28 that was told of a change is told again when another gateway has the
// change, and only then: it may have asked that one too early. Who was told nothing is told
// nothing.
func TestChangedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &others{kept: map[string]replica.State{}}
		b := newScript(t, "s", mcp.Legacy, tool("a"))
		var said atomic.Int64
		r := newRig(t, mounted(b), func(opts *Options, _ *Config) {
			opts.Replicas, opts.SessionStates, opts.ListsChanged = o, o, func() { said.Add(1) }
		}).run()
		synctest.Wait()
		stream, leave := r.begin(modernRequest(modernBody("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, "")))
		defer leave()
		all := 0
		told := func() int {
			synctest.Wait()
			all += strings.Count(stream.next(), mcp.NotifyToolsChanged+`"`)
			return all
		}
		before := said.Load()
		ChangedElsewhere(r.Gateway)
		if n := told(); n != 0 {
			t.Errorf("told %d times of what did not change here", n)
		}
		b.offer(t, mcp.Legacy, everything, tool("a"), tool("b"))
		r.Changed("s")
		time.Sleep(time.Second)
		if n := told(); n != 1 || said.Load() == before {
			t.Errorf("told %d times of a change, the others %d times", n, said.Load()-before)
		}
		ChangedElsewhere(r.Gateway)
		if n := told(); n != 2 {
			t.Errorf("told %d times once another gateway has the change", n)
		}
		time.Sleep(settledTime)
		ChangedElsewhere(r.Gateway)
		if n := told(); n != 2 {
			t.Errorf("told %d times long afterwards", n)
		}
	})
}

// What a request of 2026-07-28 names is asked for at its gateway, while that is there.
func TestOwnedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := withOthers(t)
		for name, body := range map[string]string{
			"a task":             modernBody("1", mcp.MethodTaskGet, `"taskId":"a~x"`, ""),
			"tasks to follow":    modernBody("1", mcp.MethodListen, `"notifications":{"taskIds":["a~x","me~y"]}`, ""),
			"a call":             modernBody("1", mcp.MethodToolsCall, `"name":"s__a","requestState":"a~x"`, ""),
			"a call of nobody's": modernBody("1", mcp.MethodToolsCall, `"name":"s__a","requestState":"x"`, ""),
		} {
			o.comes(true)
			there := r.do(modernRequest(body)).code()
			o.comes(false)
			alone := r.do(modernRequest(body)).code()
			if passed := there == http.StatusTeapot; passed == (name == "a call of nobody's") || alone == http.StatusTeapot {
				t.Errorf("%s: %d, and %d without its gateway", name, there, alone)
			}
		}
	})
}

package upstream

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// State that a legacy server keeps for a connection is used on that connection alone, by
// those who share it, and is lost with it.
func TestNamedConnection(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.handle(mcp.MethodTaskGet, func(x *exchange) { x.result(`{}`) })
	spec := f.spec()
	spec.Isolation = IsolateSession
	r := run(t, spec)
	r.state(mcp.Ready)
	made := func(principal, session string) string {
		t.Helper()
		got, err := r.Call(within(t), by(principal, session))
		if err != nil || got.Conn == "" {
			t.Fatalf("connection %q, %v", got.Conn, err)
		}
		return got.Conn
	}
	one, two, other := made("ann", "1"), made("ann", "2"), made("bob", "1")
	if one == two || one == other || made("ann", "1") != one {
		t.Errorf("connections %q, %q, %q", one, two, other)
	}
	look := func(principal, session, conn string) *mcp.Call {
		return &mcp.Call{Method: mcp.MethodTaskGet, Params: []byte(`{"taskId":"t"}`), Principal: principal, Session: session, Conn: conn}
	}
	for _, c := range [][3]string{{"ann", "1", one}, {"ann", "2", two}, {"bob", "1", other}} {
		got, err := r.Call(within(t), look(c[0], c[1], c[2]))
		if err != nil || got.Conn != c[2] {
			t.Errorf("%v: on %q, %v", c, got.Conn, err)
		}
	}
	for _, c := range [][3]string{{"ann", "1", two}, {"bob", "1", one}, {"ann", "1", "none"}, {"ann", "", one}} {
		if got := r.fails(look(c[0], c[1], c[2])); got.Kind != mcp.FailGone || got.Delivered {
			t.Errorf("%v: %+v", c, got)
		}
	}
	r.EndSession("ann", "1")
	if again := made("ann", "1"); again == one {
		t.Errorf("the next connection has the name of the last one")
	}
	if got := r.fails(look("ann", "1", one)); got.Kind != mcp.FailGone {
		t.Errorf("after its end: %+v", got)
	}
	if n := len(f.requests(mcp.MethodTaskGet)); n != 3 {
		t.Errorf("%d requests reached the server, want 3", n)
	}
}

// A forgotten session is not renewed for a call that needs the state of the session.
func TestNamedConnectionLost(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	r := run(t, f.spec())
	r.state(mcp.Ready)
	got, err := r.Call(within(t), by("ann", "1"))
	if err != nil {
		t.Fatal(err)
	}
	f.forget()
	call := by("ann", "1")
	call.Conn = got.Conn
	if got := r.fails(call); got.Kind != mcp.FailGone {
		t.Errorf("%+v", got)
	}
	r.call(by("ann", "1"))
}

// The id of a task is mirrored into Mcp-Name for a modern server, whose answers
// name no connection.
func TestTaskHeaders(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Modern)
	r := run(t, f.spec())
	r.state(mcp.Ready)
	methods := []string{mcp.MethodTaskGet, mcp.MethodTaskUpdate, mcp.MethodTaskCancel}
	for _, method := range methods {
		f.handle(method, func(x *exchange) { x.result(`{"resultType":"complete"}`) })
		got, err := r.Call(within(t), &mcp.Call{Method: method, Params: []byte(`{"taskId":"ä 1","name":"not this"}`)})
		if err != nil || got.Conn != "" {
			t.Errorf("%s: on %q, %v", method, got.Conn, err)
		}
		if h := f.requests(method)[0].Header; h.Get(mcp.HeaderName) != mcp.EncodeHeaderValue("ä 1") || h.Get(mcp.HeaderMethod) != method {
			t.Errorf("%s: headers %v", method, h)
		}
	}
}

// The state of a task is an event of its connection.
func TestTaskStatusEvent(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.handle(http.MethodGet, func(x *exchange) {
		x.notify(mcp.NotifyTaskStatus, `{"taskId":"t","status":"working"}`)
		x.hold()
	})
	r := run(t, f.spec())
	r.state(mcp.Ready)
	testwait.Until(t, patience, "the event", func() bool { return len(r.sink.said()) == 1 })
	got, err := r.Call(within(t), by("me", "1"))
	if err != nil {
		t.Fatal(err)
	}
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	want := mcp.Event{
		Server: "srv", Principal: "me", Conn: got.Conn, Era: mcp.Legacy,
		Method: mcp.NotifyTaskStatus, Params: []byte(`{"taskId":"t","status":"working"}`),
	}
	if diff := cmp.Diff(want, r.sink.events[0]); diff != "" || got.Conn == "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

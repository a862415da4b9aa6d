package upstream

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// kept makes a call of the script "keeps" and returns how many its process has had.
func (r *running) kept(call *mcp.Call) int {
	r.t.Helper()
	answer, err := r.Call(within(r.t), call)
	var kept struct{ Calls int }
	if err == nil {
		err = json.Unmarshal(answer.Result, &kept)
	}
	if err != nil {
		r.t.Errorf("%s of session %q: %v", call.Key, call.Session, err)
	}
	return kept.Calls
}

// With one process allowed, all calls find its state. Calls that would otherwise use a
// second process, because a client is being asked, wait for the answer.
func TestOneProcess(t *testing.T) {
	t.Parallel()
	spec := childServer("keeps", mcp.Legacy)
	spec.Limits.Conns = 1
	r := run(t, spec)
	r.state(mcp.Ready)
	nobody := tool("get", `{}`) // as clients of modern HTTP come
	nobody.Exact, nobody.Capabilities = true, []byte(`{}`)
	had := 0
	for _, call := range []*mcp.Call{from("2", "get", newAsker()), from("1", "ask", newAsker()), nobody} {
		a, answered := thinker()
		asking, waiting := make(chan int, 1), make(chan int, 1)
		go func() { asking <- r.kept(from("1", "ask", a)) }()
		receives(t, "a question", a.asked)
		go func() { waiting <- r.kept(call) }()
		r.waits(call.Key)
		close(answered)
		had += 2
		if n := receives(t, "the end of the call that asks", asking); n != had-1 {
			t.Errorf("the call that asks is the %d. of its process, want %d", n, had-1)
		}
		if n := receives(t, "the end of the other call", waiting); n != had {
			t.Errorf("the other call is the %d. of its process, want %d", n, had)
		}
	}
	if n := r.kept(nobody); n != had+1 || r.beside() != 0 {
		t.Errorf("a call of a client that declares nothing is the %d. of its process, want %d", n, had+1)
	}
}

// A client that never answers does not block the only process for ever.
func TestOneProcessIsNotKept(t *testing.T) {
	t.Parallel()
	spec := childServer("keeps", mcp.Legacy)
	spec.Limits.Conns, spec.Timeouts.Think = 1, 50*time.Millisecond
	r := run(t, spec)
	r.state(mcp.Ready)
	first := r.ask("ask", "me")
	receives(t, "a question", first.asked)
	if n := r.kept(from("2", "get", newAsker())); n != 2 {
		t.Errorf("the other call is the %d. of its process", n)
	}
	if err := receives(t, "the end of the call that asks", first.end); err == nil {
		t.Error("the call that asked was not given up")
	}
}

// Several principals share the only process if that is allowed.
func TestOneProcessOfSeveral(t *testing.T) {
	t.Parallel()
	spec := childServer("keeps", mcp.Legacy)
	spec.Limits.Conns, spec.Isolation, spec.Local = 1, IsolateShared, ""
	r := run(t, spec)
	r.state(mcp.Ready)
	for i, principal := range []string{"ann", "bob", "ann"} {
		call := from("1", "put", newAsker())
		call.Principal = principal
		if n := r.kept(call); n != i+1 {
			t.Errorf("%s's call is the %d. of its process, want %d", principal, n, i+1)
		}
	}
}

package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/transport"
)

// unanswered is a call whose server asks its client.
type unanswered struct {
	asked  chan struct{}
	answer chan string
	end    chan error
	said   string
}

// ask begins a call of a principal whose client thinks until it is told what to
// answer.
func (r *running) ask(name, principal string) *unanswered {
	a := &unanswered{asked: make(chan struct{}, 1), answer: make(chan string, 1), end: make(chan error, 1)}
	call := tool(name, `{}`)
	call.Principal, call.Askable = principal, true
	call.Ask = func(ctx context.Context, _ string, _ []byte, reply func([]byte, *mcp.Error)) {
		a.asked <- struct{}{}
		go func() {
			select {
			case text := <-a.answer:
				reply([]byte(`{"text":"`+text+`"}`), nil)
			case <-ctx.Done():
				reply([]byte(`{"action":"cancel"}`), nil)
			}
		}()
	}
	ctx := within(r.t)
	go func() {
		got, err := r.Call(ctx, call)
		a.said, _ = mcp.LookupString(got.Result, "said", "text")
		a.end <- err
	}()
	return a
}

// answered answers the question of a call, which must end with the answer.
func (r *running) answered(name string, a *unanswered) {
	r.t.Helper()
	a.answer <- name
	if err := receives(r.t, "the end of "+name, a.end); err != nil || a.said != name {
		r.t.Errorf("%s was told %q, %v", name, a.said, err)
	}
}

// Clients that never answer do not block a server. The call that was suspended longest is
// given up for one that finds no connection, whatever its client can answer, and the
// others keep theirs.
func TestAbandonedQuestionsGiveWay(t *testing.T) {
	t.Parallel()
	spec := childServer("asks", mcp.Legacy)
	spec.Limits.Conns, spec.Timeouts.Think = 3, 50*time.Millisecond
	r := run(t, spec)
	r.state(mcp.Ready)
	var open []*unanswered
	for i := range 3 {
		a := r.ask(fmt.Sprint("t", i), "me")
		receives(t, "a question", a.asked)
		open = append(open, a)
	}
	fourth := r.ask("t3", "me")
	receives(t, "the question of the fourth call", fourth.asked)
	failure, ok := errors.AsType[*mcp.Failure](receives(t, "the end of the first", open[0].end))
	if !ok || failure.Kind != mcp.FailGivenUp || !failure.Delivered || !strings.Contains(failure.Reason, "servers.srv.processes") {
		t.Errorf("the first ended with %+v, want it given up", failure)
	}

	silent := tool("t4", `{}`) // of a client that can be asked nothing
	silent.Exact = true
	if _, err := r.Call(within(t), silent); err != nil {
		t.Errorf("a call of a client that can be asked nothing: %v", err)
	}
	if err := receives(t, "the end of the second", open[1].end); !errors.Is(err, errGivenUp) {
		t.Errorf("the second ended with %v, want it given up", err)
	}
	r.answered("t2", open[2])
	r.answered("t3", fourth)
	r.answered("t5", r.ask("t5", "me"))
}

// Unanswered questions of one principal do not keep another from its first connection.
func TestAbandonedQuestionsOfAnother(t *testing.T) {
	t.Parallel()
	spec := childServer("asks", mcp.Legacy)
	spec.Local, spec.Limits.Conns, spec.Timeouts.Think = "", 3, 50*time.Millisecond
	r := run(t, spec)
	r.state(mcp.Ready)
	var open []*unanswered
	for i := range 2 {
		a := r.ask(fmt.Sprint("t", i), "ann")
		receives(t, "a question", a.asked)
		open = append(open, a)
	}
	r.answered("bob", r.ask("bob", "bob"))
	if err := receives(t, "the end of ann's first", open[0].end); !errors.Is(err, errGivenUp) {
		t.Errorf("ann's first ended with %v, want it given up", err)
	}
	r.answered("t1", open[1])
}

// waits waits until a call waits for a connection.
func (r *running) waits(whose string) {
	r.t.Helper()
	testwait.Until(r.t, patience, "the wait of "+whose, func() bool {
		r.pool.freed.mu.Lock()
		defer r.pool.freed.mu.Unlock()
		return r.pool.freed.rung != nil
	})
}

// A call that waits for a connection uses the successor of the own connection.
func TestAWaitFindsAnotherConnection(t *testing.T) {
	t.Parallel()
	spec := childServer("keeps", mcp.Legacy)
	spec.Limits.Conns, spec.Timeouts.Think = 1, time.Hour
	r := run(t, spec)
	r.state(mcp.Ready)
	first := r.ask("ask", "me")
	receives(t, "a question", first.asked)
	end := make(chan error, 1)
	ctx := within(t)
	go func() {
		_, err := r.Call(ctx, tool("put", `{}`))
		end <- err
	}()
	r.waits("the second")
	main := r.own()
	r.pool.lose(main, transport.ErrSessionLost)
	if err := receives(t, "the end of the first", first.end); err == nil {
		t.Error("the first call has an answer of what is lost")
	}
	if err := receives(t, "the end of the second", end); err != nil {
		t.Errorf("the call that waited ended with %v", err)
	}
}

// A call that waits for a connection notices a later question, and does not wait in vain
// for an abandoned one.
func TestAWaitHearsOfALaterQuestion(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	ask := make(chan struct{})
	f.handle(mcp.MethodToolsCall, func(x *exchange) {
		if name, _ := x.msg.ParamString("name"); name != "slow" {
			x.echo()
			return
		}
		x.open()
		x.holdUntil(ask)
		x.event(question(`"q"`, mcp.MethodElicit))
		x.hold()
	})
	spec := f.spec()
	spec.Local, spec.Transport = "", Streamable
	spec.Limits.Conns, spec.Timeouts.Think = 2, 50*time.Millisecond
	r := run(t, spec)
	r.state(mcp.Ready)
	ann := r.ask("slow", "ann")
	testwait.Until(t, patience, "ann's call", func() bool { return len(f.requests(mcp.MethodToolsCall)) == 1 })

	bob := tool("echo", `{}`)
	bob.Principal = "bob"
	end := make(chan error, 1)
	ctx := within(t)
	go func() {
		_, err := r.Call(ctx, bob)
		end <- err
	}()
	r.waits("bob")
	close(ask)
	if err := receives(t, "the end of bob's call", end); err != nil {
		t.Errorf("bob's call: %v", err)
	}
	if err := receives(t, "the end of ann's call", ann.end); !errors.Is(err, errGivenUp) {
		t.Errorf("ann's call ended with %v, want it given up", err)
	}
}

// A call that finds no connection, and nothing to give up, fails long before its deadline
// and says what to do.
func TestNoConnectionIsTold(t *testing.T) {
	t.Parallel()
	spec := childServer("asks", mcp.Legacy)
	spec.Limits.Conns, spec.Timeouts.Think = 1, time.Hour
	r := run(t, spec)
	r.state(mcp.Ready)
	a := r.ask("t0", "me")
	receives(t, "a question", a.asked)
	call := tool("t1", `{}`)
	call.Askable, call.Timeout = true, 50*time.Millisecond
	if f := r.fails(call); f.Kind != mcp.FailBusy || f.Delivered || !strings.Contains(f.Reason, "servers.srv.processes") {
		t.Errorf("failure = %+v", f)
	}
	r.answered("t0", a)
}

// How long a question keeps its connection: a minute, divided by the connections.
func TestThinkTime(t *testing.T) {
	t.Parallel()
	for conns, want := range map[int]time.Duration{1: time.Minute, 2: 30 * time.Second, 8: 10 * time.Second, 100: 10 * time.Second} {
		if got := (&Spec{Limits: Limits{Conns: conns}}).withDefaults().Timeouts.Think; got != want {
			t.Errorf("%d connections: %v, want %v", conns, got, want)
		}
	}
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	// A place is its principal, in capitals where it runs; the one suspended for
	// longest is first.
	for _, tt := range []struct {
		held, wants string
		victim      int
	}{
		{"", "a", -1},
		{"AA", "a", -1},
		{"AaaB", "a", 1},    // its own that was suspended for longest
		{"baB", "a", 1},     // its own, though another's is older
		{"bbB", "a", 0},     // it has none: of the one that holds the most
		{"bcc", "a", 1},     // of the one that holds the most
		{"bcd", "a", 0},     // all hold one: the one suspended for longest
		{"bA", "a", -1},     // it has its share, which runs
		{"bbbA", "a", 0},    // it has less than its share
		{"bbbaB", "a", 3},   // and yields its own first
		{"BBBc", "a", 3},    // whose others run
		{"AAAAbb", "a", -1}, // it has more than its share
	} {
		var held []pooledConn
		for i, c := range tt.held {
			p := pooledConn{principal: string(c | 0x20)}
			if c >= 'a' {
				p.suspended = time.Unix(int64(i+1), 0)
			}
			held = append(held, p)
		}
		if got := givesUp(held, tt.wants, len(held)); got != tt.victim {
			t.Errorf("yields(%s, %s) = %d, want %d", tt.held, tt.wants, got, tt.victim)
		}
	}
}

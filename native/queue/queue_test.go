package queue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/queue"
)

// server works on each call for a second, and counts how many it works on.
type server struct {
	mu        sync.Mutex
	now, most int
	calls     int
}

// counts returns how many calls there were, and how many at once.
func (s *server) counts() (calls, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, s.most
}

func (s *server) Name() string { return "s" }

func (s *server) Listing() (*mcp.Listing, mcp.Status) {
	return listing, mcp.Status{State: mcp.Ready}
}

var listing = &mcp.Listing{Era: mcp.Modern, Capabilities: []byte(`{"tools":{}}`), Items: map[mcp.Kind][]mcp.Item{mcp.Tool: {{Key: "slow"}}}}

func (s *server) Probe(context.Context) error { return nil }

func (s *server) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	s.mu.Lock()
	s.calls++
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.now--; s.mu.Unlock() }()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return mcp.Answer{}, context.Cause(ctx)
	}
	switch what, _ := mcp.LookupString(call.Params, "arguments", "what"); what {
	case "fault":
		return mcp.Answer{Era: mcp.Modern, Fault: mcp.Errorf(-32000, "a fault")}, nil
	case "fail":
		return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailUnavailable, Reason: "It is away."}
	case "says no":
		return mcp.Answer{Era: mcp.Modern, Result: []byte(`{"content":[],"isError":true}`)}, nil
	case "large":
		return mcp.Answer{Era: mcp.Modern, Result: fmt.Appendf(nil, `{"content":[%q]}`, strings.Repeat("x", 1000))}, nil
	}
	return mcp.Answer{Era: mcp.Modern, Result: []byte(`{"content":[]}`)}, nil
}

const tasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// a call of a tool that is queued, by somebody who knows tasks.
func call(principal, what string) *mcp.Call {
	return &mcp.Call{
		Method: mcp.MethodToolsCall, Params: []byte(`{"name":"slow","arguments":{"what":"` + what + `"}}`),
		Capabilities: []byte(tasks), Principal: principal,
	}
}

func made(b *queue.Backend, principal, what string) (id string, err error) {
	got, err := b.Call(context.Background(), call(principal, what))
	if err != nil {
		return "", err
	}
	if kind, _ := mcp.LookupString(got.Result, "resultType"); kind != mcp.ResultTask {
		return "", fmt.Errorf("%s is not a task", got.Result)
	}
	id, _ = mcp.LookupString(got.Result, "taskId")
	return id, nil
}

func about(b *queue.Backend, principal, method, id string) string {
	got, err := b.Call(context.Background(), &mcp.Call{
		Method: method, Params: []byte(`{"taskId":"` + id + `"}`), Principal: principal, Capabilities: []byte(tasks),
	})
	switch {
	case err != nil:
		return err.Error()
	case got.Fault != nil:
		return got.Fault.Message
	case method != mcp.MethodTaskGet:
		return "ok"
	}
	status, _ := mcp.LookupString(got.Result, "status")
	return status + string(mcp.Lookup(got.Result, "result")) + string(mcp.Lookup(got.Result, "error"))
}

func isBusy(err error) bool {
	f, ok := errors.AsType[*mcp.Failure](err)
	return ok && f.Kind == mcp.FailBusy && !f.Delivered
}

func on(l queue.Limits) (*queue.Pool, *queue.Backend, *server) {
	p, s := queue.New(l, nil), &server{}
	return p, p.On(s, func(tool string) bool { return tool == "slow" }), s
}

func TestTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b, _ := on(queue.Limits{Settings: queue.Settings{Workers: 1, Waiting: 10, WaitingPerPrincipal: 10, Keep: time.Minute}})
		ids := map[string]string{}
		for _, what := range []string{"", "fault", "fail"} {
			id, err := made(b, "me", what)
			if err != nil {
				t.Fatal(err)
			}
			ids[what] = id
			if got := about(b, "me", mcp.MethodTaskGet, id); got != "working" {
				t.Errorf("%q is %s", what, got)
			}
		}
		time.Sleep(4 * time.Second)
		for what, want := range map[string]string{
			"": `completed{"content":[]}`, "fault": `failed{"code":-32000,"message":"a fault"}`, "fail": `failed{"code":-32603,"message":"It is away."}`,
		} {
			if got := about(b, "me", mcp.MethodTaskGet, ids[what]); got != want {
				t.Errorf("%q is %s; want %s", what, got, want)
			}
		}
		for _, of := range [][2]string{{"you", ids[""]}, {"me", "none"}} {
			for _, method := range []string{mcp.MethodTaskGet, mcp.MethodTaskCancel, mcp.MethodTaskUpdate} {
				if got := about(b, of[0], method, of[1]); got != "Unknown task" {
					t.Errorf("%s of %v: %s", method, of, got)
				}
			}
		}
		time.Sleep(2 * time.Minute)
		if got := about(b, "me", mcp.MethodTaskGet, ids[""]); got != "Unknown task" {
			t.Errorf("after its time: %s", got)
		}
		if n := p.Drain(t.Context()); n != 0 {
			t.Errorf("%d tasks were cut", n)
		}
		if _, err := made(b, "me", ""); !isBusy(err) {
			t.Errorf("a call after the end: %v", err)
		}
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, s := on(queue.Limits{Settings: queue.Settings{Workers: 1, Waiting: 10, WaitingPerPrincipal: 10}})
		runs, err := made(b, "me", "")
		waits, err2 := made(b, "me", "")
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		synctest.Wait()
		for _, id := range []string{waits, runs} {
			if got := about(b, "me", mcp.MethodTaskCancel, id); got != "ok" {
				t.Error(got)
			}
			synctest.Wait()
			if got := about(b, "me", mcp.MethodTaskGet, id); got != "cancelled" {
				t.Error(got)
			}
		}
		if calls, _ := s.counts(); calls != 1 {
			t.Errorf("%d calls reached the server", calls)
		}
	})
}

// TestBounds fills the pool from all sides: never more run than there are
// workers, and never more wait than may.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, s := on(queue.Limits{Settings: queue.Settings{Workers: 2, Waiting: 5, WaitingPerPrincipal: 3}})
		refused := 0
		for i := range 20 {
			if _, err := made(b, fmt.Sprint("p", i%2), ""); isBusy(err) {
				refused++
			} else if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if refused != 13 {
			t.Errorf("%d were refused; 2 run and 5 wait of 20", refused)
		}
		held := *call("p3", "")
		held.Capabilities = nil
		if _, err := b.Call(t.Context(), &held); !isBusy(err) {
			t.Errorf("a call that is held open: %v", err)
		}
		time.Sleep(10 * time.Second)
		if calls, most := s.counts(); most != 2 || calls != 7 {
			t.Errorf("%d at once, %d calls", most, calls)
		}
		for range 5 {
			_, err := made(b, "one", "")
			synctest.Wait()
			_ = err
		}
		if _, err := made(b, "one", ""); !isBusy(err) || !strings.Contains(err.Error(), "your calls") {
			t.Errorf("beyond those of one caller: %v", err)
		}
		if _, err := made(b, "another", ""); err != nil {
			t.Errorf("another caller: %v", err)
		}
		time.Sleep(10 * time.Second)
	})
}

func TestHeldOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, s := on(queue.Limits{Settings: queue.Settings{Workers: 1, Waiting: 3, WaitingPerPrincipal: 3}})
		held := *call("me", "")
		held.Capabilities = nil
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if got, err := b.Call(t.Context(), &held); err != nil || string(got.Result) != `{"content":[]}` {
					t.Errorf("%s, %v", got.Result, err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("the caller has left")
		all.Go(func() {
			if _, err := b.Call(ctx, &held); !errors.Is(err, left) {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel(left)
		all.Wait()
		if calls, most := s.counts(); most != 1 || calls != 3 {
			t.Errorf("%d at once, %d calls", most, calls)
		}
		free := *call("me", "")
		free.Params = []byte(`{"name":"quick"}`)
		if got, err := b.Call(t.Context(), &free); err != nil || mcp.Lookup(got.Result, "taskId") != nil {
			t.Errorf("a tool that is not queued: %s, %v", got.Result, err)
		}
	})
}

func TestKeptResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b, _ := on(queue.Limits{Settings: queue.Settings{Workers: 10, Waiting: 10, WaitingPerPrincipal: 10}, Each: 10, Kept: 5, KeptBytes: 3500})
		known := func(what string) (n int) {
			var ids []string
			for range 10 {
				id, err := made(b, "me", what)
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			time.Sleep(2 * time.Second)
			for _, id := range ids {
				if about(b, "me", mcp.MethodTaskGet, id) != "Unknown task" {
					n++
				}
			}
			return n
		}
		if n := known(""); n != 5 {
			t.Errorf("%d results are kept of at most 5", n)
		}
		if n := known("large"); n != 3 {
			t.Errorf("%d large results are kept", n)
		}
		p.Configure(queue.Limits{Settings: queue.Settings{Workers: 1}, Kept: 1})
		if n := p.Drain(t.Context()); n != 0 {
			t.Error(n)
		}
	})
}

func TestDrainCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b, s := on(queue.Limits{Settings: queue.Settings{Workers: 1, Waiting: 10, WaitingPerPrincipal: 10}})
		var ids []string
		for range 3 {
			id, err := made(b, "me", "")
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		n := p.Drain(ctx)
		if calls, _ := s.counts(); n != 2 || calls != 2 {
			t.Errorf("%d tasks were cut after %d calls", n, calls)
		}
		if got := about(b, "me", mcp.MethodTaskGet, ids[0]) + about(b, "me", mcp.MethodTaskGet, ids[1]); got != `completed{"content":[]}failed{"code":-32603,"message":"the gateway ends"}` {
			t.Error(got)
		}
	})
}

func TestListing(t *testing.T) {
	_, b, _ := on(queue.Limits{})
	l, status := b.Listing()
	if !l.Declares("extensions", mcp.ExtensionTasks) || !l.Declares("tools") || status.State != mcp.Ready || b.Name() != "s" || b.Probe(t.Context()) != nil {
		t.Errorf("%s", l.Capabilities)
	}
	if again, _ := b.Listing(); again != l || listing.Declares("extensions") {
		t.Error("the listing is another one each time, or the server's own was changed")
	}
}

// A call that has waited for a worker is decided on once more before it begins. One that
// has not waited is not.
func TestWaitingCallsAreDecidedOnAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, s := on(queue.Limits{Settings: queue.Settings{Workers: 1, Waiting: 10, WaitingPerPrincipal: 10, Keep: time.Minute}})
		asked := 0
		begin := func(refuse error) string {
			c := call("me", "")
			c.StillAllowed = func(context.Context) error { asked++; return refuse }
			got, err := b.Call(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			id, _ := mcp.LookupString(got.Result, "taskId")
			return id
		}
		atOnce, refused := begin(errors.New("No.")), begin(errors.New("The policy denies it."))
		unknown, allowed := begin(mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: slow")), begin(nil)
		held := make(chan error, 1)
		go func() {
			c := call("me", "")
			c.Capabilities, c.StillAllowed = nil, func(context.Context) error { return errDenied }
			_, err := b.Call(t.Context(), c)
			held <- err
		}()
		time.Sleep(5 * time.Second)
		for id, want := range map[string]string{
			atOnce: `completed{"content":[]}`, refused: `failed{"code":-32603,"message":"The policy denies it."}`,
			unknown: `failed{"code":-32603,"message":"Unknown tool: slow"}`, allowed: `completed{"content":[]}`,
		} {
			if got := about(b, "me", mcp.MethodTaskGet, id); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		if err := <-held; !errors.Is(err, errDenied) {
			t.Errorf("a call that is held open: %v", err)
		}
		if calls, _ := s.counts(); calls != 2 || asked != 3 {
			t.Errorf("%d calls begun after %d questions", calls, asked)
		}
	})
}

var errDenied = errors.New("denied")

// Whoever asks for the list at the same time as others gets the one that they get.
func TestOneListing(t *testing.T) {
	for range 200 {
		b := queue.New(queue.Limits{}, nil).On(&server{}, func(string) bool { return true })
		var got [8]*mcp.Listing
		var all sync.WaitGroup
		began := make(chan struct{})
		for i := range got {
			all.Go(func() { <-began; got[i], _ = b.Listing() })
		}
		close(began)
		all.Wait()
		for _, l := range got {
			if l != got[0] || l == listing {
				t.Fatalf("listings: %p", got)
			}
		}
	}
}

// relisting is a server that lists what next says.
type relisting struct {
	server
	next func() *mcp.Listing
}

func (r *relisting) Listing() (*mcp.Listing, mcp.Status) {
	return r.next(), mcp.Status{State: mcp.Ready}
}

// Whoever comes with an old list does not make another one of the newer list.
func TestOldListing(t *testing.T) {
	before, after := *listing, *listing
	var asked atomic.Int64
	in, goOn := make(chan struct{}), make(chan struct{})
	b := queue.New(queue.Limits{}, nil).On(&relisting{next: func() *mcp.Listing {
		if asked.Add(1) == 1 {
			close(in)
			<-goOn
			return &before
		}
		return &after
	}}, func(string) bool { return true })
	var all sync.WaitGroup
	all.Go(func() { b.Listing() })
	<-in
	var first *mcp.Listing
	all.Go(func() { first, _ = b.Listing() })
	for range 1000 { // until it has the newer list, or waits for the old one
		runtime.Gosched()
	}
	close(goOn)
	all.Wait()
	if second, _ := b.Listing(); first != second {
		t.Error("two listings were made of one")
	}
}

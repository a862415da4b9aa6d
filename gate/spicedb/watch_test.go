package spicedb_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

const grant = "tool:search#executor@user:alice"

var search = spicedbtest.Tool("search", "alice")

// decide answers the call of search by alice.
func decide(t testing.TB, p gate.Phase) gate.Effect {
	t.Helper()
	d, err := p.Part().Check(t.Context(), &search)
	if err != nil {
		t.Errorf("check: %v", err)
	}
	return d.Effect
}

func TestAnswersAreKept(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, grant)
	p := start(t, s, nil)
	for range 50 {
		if decide(t, p) != gate.Allow {
			t.Fatal("not allowed")
		}
	}
	if n := s.Calls("CheckPermission"); n != 1 {
		t.Errorf("%d questions, want 1", n)
	}
	other := search
	other.Action = gate.View
	if d, err := p.Check(t.Context(), &other); err != nil || d.Effect != gate.Allow || s.Calls("CheckPermission") != 2 {
		t.Errorf("another action is answered with what was kept: %v, %v", d.Effect, err)
	}
}

func TestStrictKeepsNothing(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Lag(1000)
	s.Write(t, grant, "tool:loose#executor@user:alice")
	p := start(t, s, func(o *spicedb.Options) {
		o.StrictFor = func(r *gate.Request) bool { return r.Exposed == "search" }
	})
	s.BeforeEvent(func(string) { <-t.Context().Done() }) // no event arrives
	loose := spicedbtest.Tool("loose", "alice")
	for range 3 {
		if decide(t, p) != gate.Allow {
			t.Fatal("not allowed")
		}
		if d, err := p.Check(t.Context(), &loose); err != nil || d.Effect != gate.Allow {
			t.Fatal(d, err)
		}
	}
	s.Delete(t, grant, "tool:loose#executor@user:alice")
	all, err := p.CheckAll(t.Context(), []gate.Request{search, loose})
	if err != nil || all[0].Effect != gate.Deny || all[1].Effect != gate.Allow {
		t.Errorf("strict %v, else %v, %v", all[0].Effect, all[1].Effect, err)
	}
	if decide(t, p) != gate.Deny {
		t.Error("a strict tool is allowed after its revocation")
	}
	if n := s.Calls("CheckPermission"); n != 5 {
		t.Errorf("%d questions, want 5", n)
	}
}

// Until the event of a revocation was applied the old answer may be given;
// after it, never again, whoever asks.
func TestNoAllowAfterARevocationsEvent(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Lag(1000)
	var changes atomic.Int64 // one for the start and one for each event, which come one by one
	p := start(t, s, func(o *spicedb.Options) {
		o.OnChange = func() { changes.Add(1) }
	})
	testwait.Until(t, spicedbtest.Soon, "the change of the start", func() bool { return changes.Load() == 1 })
	for round := range int64(10) {
		granted := 2 + 2*round
		s.Write(t, grant)
		testwait.Until(t, spicedbtest.Soon, "the grant", func() bool { return changes.Load() == granted })
		if decide(t, p) != gate.Allow {
			t.Fatal("not allowed after the event of the grant")
		}
		gateway := make(chan struct{})
		s.BeforeEvent(func(string) { <-gateway })
		s.Delete(t, grant)
		if decide(t, p) != gate.Allow {
			t.Fatal("the answer was not kept") // the test would prove nothing
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for seen := 0; seen < 20; {
					before := changes.Load() > granted
					d, err := p.Check(t.Context(), &search)
					if err != nil {
						t.Error(err)
						return
					}
					if before {
						seen++
						if d.Effect == gate.Allow {
							t.Error("allowed after the event of the revocation")
							return
						}
					}
				}
			})
		}
		close(gateway)
		s.BeforeEvent(nil)
		wg.Wait()
	}
}

// An answer that was under way when the revocation's event came is neither
// given nor kept.
func TestSlowAnswersDoNotOutliveARevocation(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, grant)
	changes := make(chan struct{}, 100)
	p := start(t, s, func(o *spicedb.Options) { o.OnChange = func() { changes <- struct{}{} } })
	<-changes // of the start
	var once sync.Once
	s.Answering(func(_ context.Context, method string) {
		if method != "CheckPermission" {
			return
		}
		once.Do(func() {
			s.Delete(t, grant)
			<-changes // applied
		})
	})
	if got := decide(t, p); got != gate.Deny {
		t.Errorf("%v, by an answer from before the revocation", got)
	}
	if got := decide(t, p); got != gate.Deny {
		t.Errorf("%v, by an answer that was kept from before the revocation", got)
	}
	if n := s.Calls("CheckPermission"); n != 2 {
		t.Errorf("%d questions, want 2", n)
	}
}

func TestSlowListsDoNotOutliveARevocation(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 300} {
		s := spicedbtest.NewServer()
		s.Write(t, grant)
		changes := make(chan struct{}, 100)
		p := start(t, s, func(o *spicedb.Options) { o.OnChange = func() { changes <- struct{}{} } })
		<-changes
		list := []gate.Request{search}
		for i := range n {
			list = append(list, spicedbtest.Tool(fmt.Sprint("t", i), "alice"))
		}
		var once sync.Once
		s.Answering(func(ctx context.Context, method string) {
			if method == "LookupResources" || method == "CheckBulkPermissions" {
				once.Do(func() {
					s.Delete(t, grant)
					<-changes
				})
			}
		})
		for range 2 {
			all, err := p.CheckAll(t.Context(), list)
			if err != nil || all[0].Effect != gate.Deny {
				t.Errorf("list of %d: %v, %v", n, all[0].Effect, err)
			}
		}
	}
}

func TestBrokenStreamKeepsNothing(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Lag(1000)
	s.Write(t, grant)
	p := start(t, s, nil)
	if decide(t, p) != gate.Allow {
		t.Fatal("not allowed")
	}
	s.Before(func(_ context.Context, method string) error {
		if method == "Watch" {
			return status.Error(codes.FailedPrecondition, "watch API disabled")
		}
		return nil
	})
	s.BreakWatch(status.Error(codes.Unavailable, "the stream is told to break"))
	testwait.Until(t, spicedbtest.Soon, "the break", func() bool { return !p.Status().Watching })
	before := s.Calls("CheckPermission")
	for range 5 {
		if decide(t, p) != gate.Allow {
			t.Fatal("not allowed")
		}
	}
	if n := s.Calls("CheckPermission") - before; n != 5 {
		t.Errorf("%d questions without a stream, want 5", n)
	}
	s.Delete(t, grant)
	if decide(t, p) != gate.Deny {
		t.Error("allowed from what was kept, without a stream")
	}
	if st := p.Status(); !st.OK {
		t.Errorf("status %+v: decisions are made without a stream", st)
	}
	s.Before(nil)
	watching(t, p)
	if decide(t, p) != gate.Deny {
		t.Error("allowed after the stream stood again")
	}
	testwait.Until(t, spicedbtest.Soon, "answers that are kept after the stream stood again", func() bool {
		before = s.Calls("CheckPermission")
		return decide(t, p) == gate.Deny && s.Calls("CheckPermission") == before
	})
}

// What was written while the stream was broken counts when it stands again,
// also where its token is too old to go on from.
func TestStreamsGoOn(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprint("too old ", old), func(t *testing.T) {
			t.Parallel()
			s := spicedbtest.NewServer()
			s.Lag(1000)
			s.Write(t, grant)
			var changes atomic.Int64
			p := start(t, s, func(o *spicedb.Options) { o.OnChange = func() { changes.Add(1) } })
			if decide(t, p) != gate.Allow {
				t.Fatal("not allowed")
			}
			testwait.Until(t, spicedbtest.Soon, "the change of the start", func() bool { return changes.Load() == 1 })
			closed := make(chan struct{})
			s.Before(func(ctx context.Context, method string) error {
				if method == "Watch" {
					select {
					case <-closed:
					case <-ctx.Done():
					}
				}
				return nil
			})
			s.BreakWatch(status.Error(codes.Unavailable, "the stream is told to break"))
			testwait.Until(t, spicedbtest.Soon, "the break", func() bool { return !p.Status().Watching })
			s.Delete(t, grant)
			if old {
				s.Collect()
			}
			close(closed)
			watching(t, p)
			if decide(t, p) != gate.Deny {
				t.Error("allowed after a revocation that the stream missed")
			}
			testwait.Until(t, spicedbtest.Soon, "a change", func() bool { return changes.Load() > 1 })
			s.Write(t, grant)
			testwait.Until(t, spicedbtest.Soon, "the grant", func() bool { return decide(t, p) == gate.Allow })
		})
	}
}

// A server that was given another datastore does not know the tokens.
func TestForgottenTokens(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, grant)
	p := start(t, s, nil)
	s.Reset()
	for _, name := range []string{"search", "other"} {
		r := spicedbtest.Tool(name, "alice")
		if _, err := p.Check(t.Context(), &r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	list := make([]gate.Request, 300)
	for i := range list {
		list[i] = spicedbtest.Tool(fmt.Sprint("t", i), "alice")
	}
	for _, n := range []int{10, 300} {
		if _, err := p.CheckAll(t.Context(), list[:n]); err != nil {
			t.Errorf("list of %d: %v", n, err)
		}
	}
	s.BreakWatch(status.Error(codes.Unavailable, "gone"))
	testwait.Until(t, spicedbtest.Soon, "a stream with known tokens", func() bool {
		before := s.Calls("CheckPermission")
		_ = decide(t, p)
		_ = decide(t, p)
		return p.Status().Watching && s.Calls("CheckPermission") <= before+1
	})
	s.Delete(t, grant)
	testwait.Until(t, spicedbtest.Soon, "the revocation", func() bool { return decide(t, p) == gate.Deny })
}

// What we wrote ourselves is read by the next decision, whatever the stream
// has delivered.
func TestOwnWritesAreRead(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Lag(1000)
	p := start(t, s, nil)
	hold := make(chan struct{})
	s.BeforeEvent(func(string) { <-hold })
	s.Write(t, "server:gh#executor@user:alice")
	if decide(t, p) != gate.Deny {
		t.Fatal("allowed without a relation")
	}
	report, err := p.Sync(t.Context(), []spicedb.Capability{{Kind: mcp.Tool, Server: "gh", Original: "search", Exposed: "search"}})
	if err != nil || report.Token == "" || fmt.Sprint(report.Written) != "[tool:search#server@server:gh]" {
		t.Fatalf("%+v, %v", report, err)
	}
	for range 3 {
		if decide(t, p) != gate.Allow {
			t.Error("what was written is not read")
		}
	}
	close(hold)
	s.BeforeEvent(nil)
	testwait.Until(t, spicedbtest.Soon, "answers that are kept", func() bool {
		before := s.Calls("CheckPermission")
		return decide(t, p) == gate.Allow && s.Calls("CheckPermission") == before
	})
}

func TestReadsAreAsFreshAsTheLastEvent(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Lag(1000) // else a read from before the event might see the grant
	var mu sync.Mutex
	var last *v1.Consistency
	s.Requests(func(method string, req any) {
		if check, ok := req.(*v1.CheckPermissionRequest); ok {
			mu.Lock()
			defer mu.Unlock()
			last = check.GetConsistency()
		}
	})
	p := start(t, s, nil)
	token := s.Write(t, grant)
	testwait.Until(t, spicedbtest.Soon, "the event", func() bool { return decide(t, p) == gate.Allow })
	mu.Lock()
	defer mu.Unlock()
	if got := last.GetAtLeastAsFresh().GetToken(); got != token {
		t.Errorf("read at least as fresh as %q, want %q", got, token)
	}
}

// A schema that takes a permission away is an event too.
func TestSchemaChangesAreSeen(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, grant)
	p := start(t, s, nil)
	if decide(t, p) != gate.Allow {
		t.Fatal("not allowed")
	}
	s.SetType("tool", nil)
	testwait.Until(t, spicedbtest.Soon, "the schema", func() bool {
		d, err := p.Check(t.Context(), &search)
		return err != nil && d.Effect == gate.Deny && d.Reason == spicedb.ReasonMisconfigured
	})
}

// OnChange may ask the phase, and many events are few calls.
func TestOnChange(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	var calls atomic.Int64
	var p atomic.Pointer[spicedb.Phase]
	phase := start(t, s, func(o *spicedb.Options) {
		o.OnChange = func() {
			calls.Add(1)
			if x := p.Load(); x != nil {
				_, _ = x.Check(context.Background(), &search) // the last call may come with the test's end
				x.Wrote("")
			}
		}
	})
	p.Store(phase)
	began := time.Now()
	for i := range 500 {
		s.Write(t, fmt.Sprintf("tool:t%d#executor@user:bob", i))
	}
	s.Write(t, grant)
	testwait.Until(t, spicedbtest.Soon, "the last event", func() bool { return decide(t, phase) == gate.Allow })
	most := 2*5 + int64(time.Since(began)/(50*time.Millisecond)) + 5
	if n := calls.Load(); n > most {
		t.Errorf("%d calls for 500 events in %v, want at most %d", n, time.Since(began), most)
	}
}

func TestLookupOncePerCaller(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, grant)
	p := start(t, s, nil)
	list := func(subject string) []gate.Request {
		all := make([]gate.Request, 250)
		id := spicedbtest.User(subject)
		for i := range all {
			all[i] = spicedbtest.Tool(fmt.Sprint("t", i), subject)
			all[i].Identity, all[i].Action = id, gate.View
		}
		all[7].Exposed = "search"
		return all
	}
	s.Before(func(ctx context.Context, method string) error {
		if method == "LookupResources" {
			return spicedbtest.Slow(20*time.Millisecond)(ctx, method)
		}
		return nil
	})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			subject := []string{"alice", "bob"}[i%2]
			all, err := p.CheckAll(t.Context(), list(subject))
			if err != nil {
				t.Error(err)
				return
			}
			if (all[7].Effect == gate.Allow) != (subject == "alice") {
				t.Errorf("%s: %v", subject, all[7].Effect)
			}
		})
	}
	wg.Wait()
	if n := s.Calls("LookupResources"); n != 2 {
		t.Errorf("%d lookups, want one for each caller", n)
	}
	view := search
	view.Action = gate.View
	if d, err := p.Check(t.Context(), &view); err != nil || d.Effect != gate.Allow || s.Calls("CheckPermission") != 0 {
		t.Errorf("what the list found is asked again: %v, %v", d.Effect, err)
	}
}

// A bulk question stays below the size of a message that a server takes.
func TestLargeContextsAreDivided(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, "tool:t150#executor@user:alice")
	p := start(t, s, nil)
	before := s.Calls("CheckBulkPermissions")
	id := *spicedbtest.User("alice")
	id.Groups = []string{strings.Repeat("g", 10_000)}
	list := make([]gate.Request, 200)
	for i := range list {
		list[i] = spicedbtest.Tool(fmt.Sprint("t", i), "alice")
		list[i].Identity = gate.NewIdentity(id)
	}
	all, err := p.CheckAll(t.Context(), list)
	if err != nil || all[150].Effect != gate.Allow || all[151].Effect != gate.Deny {
		t.Fatal(all[150], all[151], err)
	}
	if n := s.Calls("CheckBulkPermissions") - before; n < 2 {
		t.Errorf("%d calls for 2 MB", n)
	}
}

func TestRunOnce(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	p := start(t, s, nil)
	if err := p.Run(t.Context()); err == nil {
		t.Error("it runs twice")
	}
}

func TestZeroPhaseDenies(t *testing.T) {
	t.Parallel()
	for _, p := range []spicedbtest.Phase{new(spicedb.Phase), new(spicedb.Builtin)} {
		if d, err := p.Check(t.Context(), &search); d.Effect != gate.Deny || err == nil {
			t.Errorf("%T: %v, %v", p, d.Effect, err)
		}
		if e, err := p.Explain(t.Context(), &search); e.Effect != gate.Deny || err == nil {
			t.Errorf("%T explains: %v, %v", p, e.Effect, err)
		}
		all, err := p.CheckAll(t.Context(), []gate.Request{search})
		if all[0].Effect != gate.Deny || err == nil && all[0].Err == nil {
			t.Errorf("%T: %v, %v", p, all, err)
		}
	}
	var p spicedb.Phase
	if err := p.Run(t.Context()); err == nil {
		t.Error("the zero phase runs")
	}
	if p.Status().OK || p.Close() != nil {
		t.Error("the zero phase is OK")
	}
}

func TestClosedPhaseDenies(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, grant)
	p := open(t, patient(spicedb.Options{Endpoint: s.Start(t)}))
	if decide(t, p) != gate.Allow {
		t.Fatal("not allowed")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err := p.Check(t.Context(), &search); err == nil || d.Effect != gate.Deny {
		t.Errorf("%v, %v", d.Effect, err)
	}
}

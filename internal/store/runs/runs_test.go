package runs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/runs"
	"github.com/toolgate/toolgate/internal/store/storetest"
)

// postgres is the PostgreSQL server of the tests.
var postgres storetest.Server

func TestMain(m *testing.M) {
	code := m.Run()
	if err := postgres.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the PostgreSQL of the tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// onEach runs a test on both databases.
func onEach(t *testing.T, test func(t *testing.T, s *store.Store, r *runs.Runs)) {
	for name, options := range map[string]func(*testing.T) store.Options{
		"SQLite":     func(t *testing.T) store.Options { return store.Options{Path: filepath.Join(t.TempDir(), "store.db")} },
		"PostgreSQL": func(t *testing.T) store.Options { return store.Options{URL: postgres.SchemaURL(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := store.Open(t.Context(), options(t))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			t.Cleanup(func() {
				cancel()
				if err := errors.Join(<-ended, s.Close()); err != nil {
					t.Error(err)
				}
			})
			test(t, s, runs.New(s))
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func later() time.Time  { return time.Now().Add(time.Hour) }
func before() time.Time { return time.Now().Add(-time.Second) }

func run(principal string, lasting bool) runs.Run {
	return runs.Run{Principal: principal, Credential: "key:1", Lasting: lasting, Capsule: "c", Agent: "a", Request: []byte{0, 255}}
}

// A run and its steps come back as they were saved, for its owner alone.
func TestRunsAreTheirOwners(t *testing.T) {
	onEach(t, func(t *testing.T, s *store.Store, r *runs.Runs) {
		ctx := t.Context()
		own, err := r.Add(ctx, run("p\x00\xff", true), "h", later())
		must(t, err)
		steps := []runs.Step{
			{Seq: 0, Kind: runs.Inference, Turn: 1, Name: "m", State: runs.Begun, Input: 5, Output: 6, Cost: 7, BegunAt: time.Unix(1, 2).UTC(), Asked: []byte("a")},
			{Seq: 1, Kind: runs.Call, Turn: 1, Name: "t", State: runs.Begun, BegunAt: time.Unix(1, 2).UTC(), Asked: []byte{0}},
		}
		_, err = r.Save(ctx, own.ID, "h", steps...)
		must(t, err)
		end := steps[0]
		end.State, end.Input, end.EndedAt, end.Asked, end.Answer, end.CallID = runs.Done, 4, time.Unix(2, 3).UTC(), nil, []byte("b"), "id"
		_, err = r.Save(ctx, own.ID, "h", end)
		must(t, err)
		end.State, end.Answer = runs.StepFailed, []byte("never") // what has ended stays
		_, err = r.Save(ctx, own.ID, "h", end)
		must(t, err)
		got, err := r.Steps(ctx, own.ID)
		must(t, err)
		if len(got) != 2 || got[0].State != runs.Done || string(got[0].Asked) != "a" || string(got[0].Answer) != "b" || got[0].Input != 4 || got[0].CallID != "id" ||
			!got[0].EndedAt.Equal(time.Unix(2, 3)) || got[1].State != runs.Begun || !got[1].EndedAt.IsZero() {
			t.Errorf("%+v", got)
		}
		for _, who := range []string{"p", "q"} {
			if _, ok, err := r.Get(ctx, who, own.ID); ok || err != nil {
				t.Errorf("%q has the run: %v", who, err)
			}
			if ok, err := r.Cancel(ctx, who, own.ID); ok || err != nil {
				t.Errorf("%q cancels the run: %v", who, err)
			}
			if _, ok, err := r.Take(ctx, who, own.ID, "h2", later(), runs.States...); ok || err != nil {
				t.Errorf("%q takes the run: %v", who, err)
			}
		}
		for _, id := range []string{"", "\x00", "run_%"} {
			if _, ok, err := r.Get(ctx, "", id); ok || err != nil {
				t.Errorf("%q is a run: %v", id, err)
			}
			if ok, err := r.Cancel(ctx, "", id); ok || err != nil {
				t.Errorf("%q is cancelled: %v", id, err)
			}
		}
		if all, err := r.List(ctx, runs.Filter{Principal: "p\x00\xff", State: runs.Running}); err != nil || len(all) != 1 || all[0].ID != own.ID || all[0].Agent != own.Agent || all[0].Request != nil || all[0].Result != nil {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

// has is what a gateway has that has the agent of the runs.
var has = []string{run("p", true).Agent}

// One holder at a time works on a run, and nobody else writes it.
func TestClaims(t *testing.T) {
	onEach(t, func(t *testing.T, s *store.Store, r *runs.Runs) {
		ctx := t.Context()
		held, err := r.Add(ctx, run("p", true), "h1", later())
		must(t, err)
		if _, ok, err := r.Claim(ctx, "h2", later(), has); ok || err != nil {
			t.Errorf("a held run is claimed: %v", err)
		}
		must(t, r.Release(ctx, held.ID, "h2")) // not its holder
		if _, ok, _ := r.Claim(ctx, "h2", later(), has); ok {
			t.Error("a held run is claimed")
		}
		must(t, r.Release(ctx, held.ID, "h1"))
		if got, ok, err := r.Claim(ctx, "h2", before(), has); !ok || err != nil || got.ID != held.ID {
			t.Errorf("%+v, %v, %v", got, ok, err)
		}
		if got, ok, err := r.Claim(ctx, "h3", later(), has); !ok || err != nil || got.ID != held.ID { // h2 has died
			t.Errorf("%+v, %v, %v", got, ok, err)
		}
		for _, holder := range []string{"h1", "h2"} {
			if _, err := r.Save(ctx, held.ID, holder, runs.Step{Kind: runs.Call, State: runs.Begun}); !errors.Is(err, runs.ErrLost) {
				t.Errorf("%s saves: %v", holder, err)
			}
			if err := r.Finish(ctx, held.ID, holder, runs.Completed, nil); !errors.Is(err, runs.ErrLost) {
				t.Errorf("%s finishes: %v", holder, err)
			}
		}
		if ok, err := r.Cancel(ctx, "p", held.ID); !ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
		if got, err := r.Renew(ctx, "h3", later(), []string{held.ID}); err != nil || !slices.Equal(got, []string{held.ID}) {
			t.Errorf("%q, %v", got, err)
		}
		if cancelled, err := r.Save(ctx, held.ID, "h3", runs.Step{Kind: runs.Call, State: runs.Begun}); !cancelled || err != nil {
			t.Errorf("%v, %v", cancelled, err)
		}
		must(t, r.Finish(ctx, held.ID, "h3", runs.Cancelled, []byte("why")))
		if err := r.Finish(ctx, held.ID, "h3", runs.Completed, nil); !errors.Is(err, runs.ErrLost) {
			t.Errorf("it ends twice: %v", err)
		}
		if ok, err := r.Cancel(ctx, "", held.ID); ok || err != nil {
			t.Errorf("what has ended is cancelled: %v", err)
		}
		if got, ok, err := r.Get(ctx, "p", held.ID); !ok || err != nil || got.State != runs.Cancelled || string(got.Result) != "why" {
			t.Errorf("%+v, %v, %v", got, ok, err)
		}
	})
}

// A holder does not claim what it works on itself, though it could not renew the lease, and
// renews nothing else.
func TestOwnRunsAreLeftAlone(t *testing.T) {
	onEach(t, func(t *testing.T, _ *store.Store, r *runs.Runs) {
		ctx := t.Context()
		for _, lasting := range []bool{true, false} {
			own, err := r.Add(ctx, run("p", lasting), "h1", before())
			must(t, err)
			if got, ok, err := r.Claim(ctx, "h1", later(), has, own.ID); ok || err != nil {
				t.Errorf("%+v is claimed: %v", got, err)
			}
			if got, _, _ := r.Get(ctx, "p", own.ID); got.State != runs.Running {
				t.Errorf("it is %s", got.State)
			}
			if _, err := r.Renew(ctx, "h1", later(), nil); err != nil {
				t.Error(err)
			}
			if got, ok, err := r.Claim(ctx, "h2", later(), has); ok != lasting || err != nil || lasting && got.ID != own.ID {
				t.Errorf("%+v, %v, %v", got, ok, err)
			}
		}
	})
}

// A run is claimed by a gateway that has its agent, and by any other once it has waited for one.
func TestRunsWaitForTheirAgent(t *testing.T) {
	onEach(t, func(t *testing.T, s *store.Store, r *runs.Runs) {
		ctx := t.Context()
		held, err := r.Add(ctx, run("p", true), "h1", later())
		must(t, err)
		must(t, r.Release(ctx, held.ID, "h1"))
		for _, others := range [][]string{nil, {"other"}} {
			if got, ok, err := r.Claim(ctx, "h2", later(), others); ok || err != nil {
				t.Errorf("a gateway with %q claims %+v: %v", others, got, err)
			}
		}
		if got, ok, err := r.Claim(ctx, "h2", time.Now().Add(-runs.AgentTime-time.Second), append([]string{"other"}, has...)); !ok || err != nil || got.ID != held.ID {
			t.Errorf("%+v, %v, %v", got, ok, err)
		}
		if got, ok, err := r.Claim(ctx, "h3", later(), []string{"other"}); !ok || err != nil || got.ID != held.ID { // whose lease ended long ago
			t.Errorf("%+v, %v, %v", got, ok, err)
		}
	})
}

// A holder whose lease ends before it has begun does not get the same run once more.
func TestClaimedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *store.Store, r *runs.Runs) {
		ctx := t.Context()
		added, err := r.Add(ctx, run("p", true), "h1", time.Now().Add(-time.Second))
		must(t, err)
		if got, ok, err := r.Claim(ctx, "h1", later(), has); ok || err != nil {
			t.Errorf("what it has added is claimed: %+v, %v", got, err)
		}
		if _, ok, err := r.Claim(ctx, "h2", time.Now().Add(-time.Second), has); !ok || err != nil {
			t.Errorf("another one: %v, %v", ok, err)
		}
		if got, ok, err := r.Claim(ctx, "h2", later(), has); ok || err != nil {
			t.Errorf("claimed twice: %+v, %v", got, err)
		}
		if got, ok, err := r.Claim(ctx, "h3", later(), has); !ok || err != nil || got.ID != added.ID {
			t.Errorf("%+v, %v, %v", got, ok, err)
		}
	})
}

// A run whose owner has to be there is not taken over by a gateway, but by its owner.
func TestOwnersGoOn(t *testing.T) {
	onEach(t, func(t *testing.T, s *store.Store, r *runs.Runs) {
		ctx := t.Context()
		lost, err := r.Add(ctx, run("p", false), "h1", before())
		must(t, err)
		if _, ok, err := r.Claim(ctx, "h2", later(), has); ok || err != nil {
			t.Errorf("it is claimed: %v", err)
		}
		if got, _, _ := r.Get(ctx, "p", lost.ID); got.State != runs.Interrupted {
			t.Errorf("%+v", got)
		}
		if _, ok, err := r.Take(ctx, "p", lost.ID, "h2", later(), runs.Waiting); ok || err != nil {
			t.Errorf("it is taken in another state: %v", err)
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		took := 0
		for i := range 8 { // one of them
			all.Go(func() {
				_, ok, err := r.Take(ctx, "p", lost.ID, fmt.Sprint("h", i), later(), runs.Waiting, runs.Interrupted)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if ok {
					took++
				}
			})
		}
		all.Wait()
		if took != 1 {
			t.Errorf("%d took it", took)
		}
	})
}

// TestCancelledRunsDoNotGoOn: whatever becomes of its gateway, a run that somebody has asked to
// cancel ends.
func TestCancelledRunsDoNotGoOn(t *testing.T) {
	onEach(t, func(t *testing.T, _ *store.Store, r *runs.Runs) {
		ctx := t.Context()
		for name, tc := range map[string]struct {
			lasting bool
			lease   time.Time
			end     func(id string) error
			want    runs.State
		}{
			"released":             {true, later(), func(id string) error { return r.Release(ctx, id, "h1") }, runs.Cancelled},
			"with a dead gateway":  {false, before(), func(string) error { _, _, err := r.Claim(ctx, "h2", later(), has); return err }, runs.Cancelled},
			"at its limit":         {true, later(), func(id string) error { return r.Finish(ctx, id, "h1", runs.Limit, nil) }, runs.Cancelled},
			"waiting for a client": {true, later(), func(id string) error { return r.Finish(ctx, id, "h1", runs.Waiting, nil) }, runs.Cancelled},
			"when it has ended":    {true, later(), func(id string) error { return r.Finish(ctx, id, "h1", runs.Completed, nil) }, runs.Completed},
		} {
			one, err := r.Add(ctx, run("p", tc.lasting), "h1", tc.lease)
			must(t, err)
			if ok, err := r.Cancel(ctx, "p", one.ID); !ok || err != nil {
				t.Errorf("%s: %v, %v", name, ok, err)
			}
			must(t, tc.end(one.ID))
			if got, _, _ := r.Get(ctx, "p", one.ID); got.State != tc.want {
				t.Errorf("%s: it is %s", name, got.State)
			}
			if _, ok, err := r.Take(ctx, "p", one.ID, "h3", later(), runs.Running, runs.Waiting, runs.Limit, runs.Interrupted); ok || err != nil {
				t.Errorf("%s: it goes on: %v", name, err)
			}
		}
	})
}

func TestRunsAreBounded(t *testing.T) {
	onEach(t, func(t *testing.T, s *store.Store, r *runs.Runs) {
		ctx := t.Context()
		var last runs.Run
		for range runs.MaxOpen {
			var err error
			last, err = r.Add(ctx, run("p", true), "h", later())
			must(t, err)
		}
		if _, err := r.Add(ctx, run("p", true), "h", later()); !errors.Is(err, runs.ErrTooMany) {
			t.Errorf("one more: %v", err)
		}
		if _, err := r.Add(ctx, run("q", true), "h", later()); err != nil {
			t.Errorf("of another: %v", err)
		}
		if _, err := r.Save(ctx, last.ID, "h", runs.Step{Kind: runs.Call, State: runs.Begun, Asked: make([]byte, runs.MaxStep+1)}); !errors.Is(err, runs.ErrTooLarge) {
			t.Errorf("a large step: %v", err)
		}
		var err error
		n := 0
		for ; err == nil && n < 100; n++ {
			_, err = r.Save(ctx, last.ID, "h", runs.Step{Seq: n, Kind: runs.Call, State: runs.Begun, Asked: make([]byte, runs.MaxStep)})
		}
		if !errors.Is(err, runs.ErrTooLarge) || n != runs.MaxSize/runs.MaxStep+1 {
			t.Errorf("%d steps: %v", n, err)
		}
		must(t, r.Finish(ctx, last.ID, "h", runs.Completed, nil))
		must(t, s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE runs SET changed_at = 1 WHERE id = ?`, last.ID)
			return err
		}))
		must(t, r.Prune(ctx))
		if _, ok, _ := r.Get(ctx, "", last.ID); ok {
			t.Error("an old run is kept")
		}
		if steps, err := r.Steps(ctx, last.ID); err != nil || len(steps) != 0 {
			t.Errorf("%d steps of it are kept, %v", len(steps), err)
		}
		for _, bad := range []runs.Run{run("", true), {Principal: "p"}, {Principal: "p", Agent: "a\x00"}, {Principal: "p", Agent: "a", Request: make([]byte, runs.MaxRequest+1)}, {Principal: strings.Repeat("p", 2000), Agent: "a"}} {
			if _, err := r.Add(ctx, bad, "h", later()); err == nil {
				t.Errorf("%.100v is begun", bad)
			}
		}
	})
}

// Each list of runs is read by an index, on both databases. PostgreSQL reads few rows without
// one, unless it is told not to.
func TestListsAreIndexed(t *testing.T) {
	onEach(t, func(t *testing.T, s *store.Store, r *runs.Runs) {
		for i := range 3 {
			_, err := r.Add(t.Context(), run(fmt.Sprint("p", i), true), "h", later())
			must(t, err)
		}
		for index, f := range map[string]runs.Filter{
			"runs_created": {}, "runs_state_created": {State: runs.Running}, "runs_principal": {Principal: "p1"}, "runs_principal_state": {Principal: "p1", State: runs.Running},
		} {
			later := f
			later.BeforeAt, later.BeforeID, later.Limit = time.Now(), "run_x", 2
			for _, f := range []runs.Filter{f, later} {
				text, args := f.Statement()
				plan := storetest.Plan(t, s, text, args...)
				if !strings.Contains(plan, " "+index) {
					t.Errorf("%+v is not listed by %s:\n%s", f, index, plan)
				}
			}
		}
	})
}

// Pages have each run once, also those that began at the same time.
func TestPages(t *testing.T) {
	onEach(t, func(t *testing.T, s *store.Store, r *runs.Runs) {
		var ids []string
		for i := range 9 {
			of := "p"
			if i == 4 {
				of = "q"
			}
			one, err := r.Add(t.Context(), run(of, true), "h", later())
			must(t, err)
			ids = append(ids, one.ID)
		}
		must(t, s.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			for i, id := range ids {
				if _, err := tx.Exec(ctx, `UPDATE runs SET created_at = ? WHERE id = ?`, 1_000_000_000+int64(i)/5, id); err != nil {
					return err
				}
			}
			return nil
		}))
		for _, f := range []runs.Filter{{}, {Principal: "p"}, {State: runs.Running}, {Principal: "p", State: runs.Running}} {
			whole, err := r.List(t.Context(), f)
			must(t, err)
			for limit := 1; limit <= 10; limit++ {
				var paged []string
				page := f
				page.Limit = limit
				for range 12 {
					list, err := r.List(t.Context(), page)
					must(t, err)
					for i := range list {
						paged = append(paged, list[i].ID)
					}
					if len(list) < limit {
						break
					}
					page.BeforeAt, page.BeforeID = list[len(list)-1].CreatedAt, list[len(list)-1].ID
				}
				if !slices.EqualFunc(paged, whole, func(id string, r runs.Run) bool { return id == r.ID }) {
					t.Errorf("%+v in pages of %d: %q of %d", f, limit, paged, len(whole))
				}
			}
		}
		if list, err := r.List(t.Context(), runs.Filter{BeforeID: "\x00", Limit: 1}); err != nil || len(list) != 0 {
			t.Errorf("%+v %v", list, err)
		}
	})
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
)

func generation(t *testing.T, s *store.Store, topic string) int64 {
	t.Helper()
	g, err := s.Generation(t.Context(), topic)
	must(t, err)
	return g
}

// change returns a write of one entry that raises topics.
func change(key string, topics ...string) func(context.Context, *store.Tx) error {
	return func(ctx context.Context, tx *store.Tx) error {
		for _, topic := range topics {
			tx.Bump(topic)
		}
		return put(key)(ctx, tx)
	}
}

func generationRises(t *testing.T, s *store.Store) {
	if g := generation(t, s, "a"); g != 0 {
		t.Errorf("before the first change: %d", g)
	}
	must(t, s.Do(t.Context(), change("1", "b", "a", "a")))
	must(t, s.Do(t.Context(), change("2", "a")))
	must(t, s.Do(t.Context(), put("3")))
	all, err := s.Generations(t.Context())
	must(t, err)
	if diff := cmp.Diff(map[string]int64{"a": 2, "b": 1}, all); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
	// Who sees a generation sees at least as many entries.
	var all100 sync.WaitGroup
	for i := range 100 {
		all100.Go(func() {
			if err := s.Do(context.Background(), change(fmt.Sprint("n", i), "n")); err != nil {
				t.Error(err)
			}
		})
	}
	for range 20 {
		err := s.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			var entries int64
			g, err := tx.Generation(ctx, "n")
			if err != nil {
				return err
			}
			if err := tx.QueryRow(ctx, `SELECT count(*) FROM meta WHERE key LIKE 'n%'`).Scan(&entries); err != nil {
				return err
			}
			if entries < g || (entries > 0) != (g > 0) {
				t.Errorf("%d entries in generation %d", entries, g)
			}
			return nil
		})
		must(t, err)
	}
	all100.Wait()
}

func lostChangeRaisesNothing(t *testing.T, s *store.Store) {
	err := s.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(change("1", "a")(ctx, tx), errors.New("no"))
	})
	if err == nil {
		t.Error("the write was committed")
	}
	if g := generation(t, s, "a"); g != 0 {
		t.Errorf("generation = %d, want 0", g)
	}
}

// Report is one report of a Watch.
type Report struct {
	Topic      string
	Generation int64
}

// StartWatch watches s until the end of the test and returns the reports.
func StartWatch(t *testing.T, s *store.Store) <-chan Report {
	t.Helper()
	reports := make(chan Report, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Watch(ctx, func(topic string, generation int64) {
			reports <- Report{topic, generation}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch: %v", err)
		}
	})
	return reports
}

// Await waits for a report that is at least want, and returns how long that took.
func Await(t *testing.T, reports <-chan Report, want Report) time.Duration {
	t.Helper()
	start := time.Now()
	late := time.After(30 * time.Second)
	for {
		select {
		case r := <-reports:
			if r.Topic == want.Topic && r.Generation >= want.Generation {
				return time.Since(start)
			}
		case <-late:
			t.Fatalf("no report of %v within 30 s", want)
		}
	}
}

func watchReports(t *testing.T, s *store.Store) {
	must(t, s.Do(t.Context(), change("1", "b", "a")))
	reports := StartWatch(t, s)
	for _, want := range []Report{{"a", 1}, {"b", 1}} {
		if got := <-reports; got != want {
			t.Errorf("at the start: %v, want %v", got, want)
		}
	}
	for i := range int64(5) {
		must(t, s.Do(t.Context(), change(fmt.Sprint("k", i), "b")))
		Await(t, reports, Report{"b", i + 2})
	}
	must(t, s.Do(t.Context(), put("other")))
	must(t, s.Do(t.Context(), change("c", "c")))
	if got := <-reports; got != (Report{"c", 1}) {
		t.Errorf("%v was reported, want only what changed", got)
	}
}

// everyChangeRaises checks that each change through each handle is reported to watchers
// of its topic, and that calls without a change are not.
func everyChangeRaises(t *testing.T, s *store.Store) {
	ctx := t.Context()
	key := store.ApprovalKey{Principal: "p", CapabilityID: "c", ArgsHash: "h"}
	later := time.Now().Add(time.Hour)
	owner := store.Owner{Tenant: "t", Principal: "p"}
	tool := &store.DynamicTool{Name: "d__t", Owner: owner, Template: "tools__t", Change: by}
	server := store.DynamicRecord{Server: "s", Owner: owner, Entry: "e", Change: by}
	var approval store.ApprovalRecord
	var planned store.Schedule
	learnable, err := store.NewLearning(s).Pairs(ctx, "t")
	must(t, err)
	try := func(_ bool, err error) error { return err }
	for _, step := range []struct {
		name  string
		topic string
		rises int64
		do    func() error
	}{
		{"upsert", store.TopicRegistry, 1, func() error { return s.Registry().Upsert(ctx, []store.RegistryRecord{record("c")}) }},
		{"upsert nothing", store.TopicRegistry, 0, func() error { return s.Registry().Upsert(ctx, nil) }},
		{"enable", store.TopicRegistry, 1, func() error { return try(s.Registry().SetEnabled(ctx, "c", true, by)) }},
		{"enable nothing", store.TopicRegistry, 0, func() error { return try(s.Registry().SetEnabled(ctx, "x", true, by)) }},
		{"classify", store.TopicRegistry, 1, func() error { return try(s.Registry().SetClass(ctx, "c", store.Class{}, by)) }},
		{"delete", store.TopicRegistry, 1, func() error { _, err := s.Registry().Delete(ctx, "c"); return err }},
		{"delete nothing", store.TopicRegistry, 0, func() error { _, err := s.Registry().Delete(ctx, "c"); return err }},
		{"flag", store.TopicFlags, 1, func() error { return s.Flags().Set(ctx, "t", true, by, "c") }},
		{"unflag", store.TopicFlags, 1, func() error { return try(s.Flags().Clear(ctx, "t", "c")) }},
		{"unflag nothing", store.TopicFlags, 0, func() error { return try(s.Flags().Clear(ctx, "t", "c")) }},
		{"restrict", store.TopicRestrictions, 1, func() error { return s.Restrictions().Add(ctx, "p", by, "c") }},
		{"lift", store.TopicRestrictions, 1, func() error { return try(s.Restrictions().Remove(ctx, "p", "c")) }},
		{"add", store.TopicDynamic, 1, func() error { return try(s.Dynamic().Add(ctx, server, 1)) }},
		{"add again", store.TopicDynamic, 0, func() error { return try(s.Dynamic().Add(ctx, server, 2)) }},
		{"promote", store.TopicDynamic, 1, func() error { return try(s.Dynamic().Promote(ctx, "s", by)) }},
		{"remove", store.TopicDynamic, 1, func() error { return try(s.Dynamic().Remove(ctx, "s")) }},
		{"register", store.TopicDynamicTools, 1, func() error { return s.Dynamic().Tools().Put(ctx, tool, 1) }},
		{"register again", store.TopicDynamicTools, 1, func() error { return s.Dynamic().Tools().Put(ctx, tool, 1) }},
		{"unregister", store.TopicDynamicTools, 1, func() error { return try(s.Dynamic().Tools().Remove(ctx, tool.Name)) }},
		{"unregister nothing", store.TopicDynamicTools, 0, func() error { return try(s.Dynamic().Tools().RemoveOwn(ctx, tool.Name, owner)) }},
		{"declare", store.TopicDeclared, 1, func() error {
			return s.Declared().Put(ctx, []store.DeclaredRecord{{Name: "tools__a", Change: store.Change{Actor: "op"}}})
		}},
		{"declare nothing", store.TopicDeclared, 0, func() error { return s.Declared().Put(ctx, nil) }},
		{"undeclare", store.TopicDeclared, 1, func() error { return try(s.Declared().Remove(ctx, "tools__a")) }},
		{"undeclare nothing", store.TopicDeclared, 0, func() error { return try(s.Declared().Remove(ctx, "tools__a")) }},
		{"credential", store.TopicCredentials, 1, func() error { _, err := s.Credentials().Put(ctx, linear("")); return err }},
		{"renew", store.TopicCredentials, 1, func() error { _, _, err := s.Credentials().Renew(ctx, linear("").CredentialKey, 1, nil); return err }},
		{"renew nothing", store.TopicCredentials, 0, func() error { _, _, err := s.Credentials().Renew(ctx, linear("").CredentialKey, 1, nil); return err }},
		{"revoke", store.TopicCredentials, 1, func() error { return try(s.Credentials().Delete(ctx, "linear", "")) }},
		{"revoke nothing", store.TopicCredentials, 0, func() error { return try(s.Credentials().Delete(ctx, "linear", "")) }},
		{"plan", store.TopicSchedules, 1, func() (err error) {
			planned, err = store.NewSchedules(s).Add(ctx, due(later))
			return
		}},
		{"cancel", store.TopicSchedules, 1, func() error { return try(store.NewSchedules(s).Cancel(ctx, "p", planned.ID)) }},
		{"cancel again", store.TopicSchedules, 0, func() error { return try(store.NewSchedules(s).Cancel(ctx, "p", planned.ID)) }},
		{"learn", store.TopicLearning, 1, func() error { return store.NewLearning(s).PutModel(ctx, &learnable, nil) }},
		{"search", store.TopicLearning, 0, func() error { return store.NewLearning(s).Add(ctx, []store.SearchPair{{Tenant: "t"}}) }},
		{"forget", store.TopicLearning, 1, func() error { _, err := store.NewLearning(s).Forget(ctx, "t"); return err }},
		{"forget nothing", store.TopicLearning, 0, func() error { _, err := store.NewLearning(s).Forget(ctx, "t"); return err }},
		{"mode", store.TopicMode, 1, func() error { return s.Modes().Set(ctx, "m", by) }},
		{"other mode", store.TopicMode, 0, func() error { return try(s.Modes().SetIf(ctx, "x", "m", by)) }},
		{"ask", store.TopicApprovals, 1, func() (err error) {
			approval, _, err = s.Approvals().Ask(ctx, key, store.ApprovalText{}, later)
			return
		}},
		{"ask again", store.TopicApprovals, 0, func() error { _, _, err := s.Approvals().Ask(ctx, key, store.ApprovalText{}, later); return err }},
		{"use nothing", store.TopicApprovals, 0, func() error { _, _, err := s.Approvals().Use(ctx, key); return err }},
		{"decide", store.TopicApprovals, 1, func() error { _, _, err := s.Approvals().Decide(ctx, approval.ID, true, later, by); return err }},
		{"use", store.TopicApprovals, 1, func() error { _, _, err := s.Approvals().Use(ctx, key); return err }},
	} {
		before, err := s.Generations(ctx)
		must(t, err)
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		after, err := s.Generations(ctx)
		must(t, err)
		if step.rises > 0 {
			before[step.topic] += step.rises
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: generations (-want +got):\n%s", step.name, diff)
		}
	}
}

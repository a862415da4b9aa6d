package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
)

// put returns a write of one entry.
func put(key string) func(context.Context, *store.Tx) error {
	return func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO meta (key, value, updated_at) VALUES (?, x'', 0)", key)
		return err
	}
}

// count returns how many entries the store has.
func count(t *testing.T, s *store.Store) (n int) {
	t.Helper()
	err := s.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, "SELECT count(*) FROM meta").Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// block occupies the writer until release is called.
func block(t *testing.T, s *store.Store) (release func()) {
	t.Helper()
	started, gate := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- s.Do(context.Background(), func(context.Context, *store.Tx) error {
			close(started)
			<-gate
			return nil
		})
	}()
	<-started
	release = sync.OnceFunc(func() {
		close(gate)
		if err := <-done; err != nil {
			t.Errorf("the blocking write: %v", err)
		}
	})
	t.Cleanup(release)
	return release
}

func TestDoWorksWithoutRun(t *testing.T) {
	s := open(t, store.Options{})
	if err := s.Do(t.Context(), put("a")); err != nil {
		t.Fatal(err)
	}
	if err := s.Enqueue(put("b")); err != nil {
		t.Fatal(err)
	}
	stop := run(t, s)
	if err := s.Do(t.Context(), put("c")); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := s.Do(t.Context(), put("d")); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s); n != 4 {
		t.Errorf("%d entries, want 4", n)
	}
}

func TestWritesAreCommittedTogether(t *testing.T) {
	s := open(t, store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Durable: true})
	run(t, s)
	release := block(t, s)
	before := s.Stats()
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if err := s.Do(t.Context(), put(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	waitQueued(t, s, 100)
	release()
	wg.Wait()
	after := s.Stats()
	// The blocking write is one batch of its own, the hundred are another.
	if got := after.Batches - before.Batches; got != 2 {
		t.Errorf("%d batches, want 2", got)
	}
	if n := count(t, s); n != 100 {
		t.Errorf("%d entries, want 100", n)
	}
}

// waitQueued returns when n writes are queued.
func waitQueued(t *testing.T, s *store.Store, n int) {
	t.Helper()
	testwait.Until(t, patience, "writes in the queue", func() bool { return s.Stats().Queued >= n })
}

func TestFailingWriteFailsAlone(t *testing.T) {
	s := open(t, store.Options{})
	run(t, s)
	release := block(t, s)
	own := errors.New("own error")
	writes := map[string]func(context.Context, *store.Tx) error{
		"good": put("good"),
		"bad": func(ctx context.Context, tx *store.Tx) error {
			if err := put("bad")(ctx, tx); err != nil {
				return err
			}
			return own
		},
		"panic": func(ctx context.Context, tx *store.Tx) error {
			if err := put("panic")(ctx, tx); err != nil {
				return err
			}
			panic("boom")
		},
		"sql": func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO nowhere VALUES (1)")
			return err
		},
		"also": put("also"),
	}
	var mu sync.Mutex
	got := map[string]error{}
	var wg sync.WaitGroup
	for name, fn := range writes {
		wg.Go(func() {
			err := s.Do(t.Context(), fn)
			mu.Lock()
			defer mu.Unlock()
			got[name] = err
		})
	}
	waitQueued(t, s, len(writes))
	release()
	wg.Wait()
	if got["good"] != nil || got["also"] != nil {
		t.Errorf("good writes: %v, %v", got["good"], got["also"])
	}
	if got["bad"] != own { //nolint:errorlint // it must be the very error, not one around it
		t.Errorf("bad = %v, want its own error unchanged", got["bad"])
	}
	if got["panic"] == nil || !strings.Contains(got["panic"].Error(), "boom") {
		t.Errorf("panic = %v, want an error that says boom", got["panic"])
	}
	if got["sql"] == nil || !strings.Contains(got["sql"].Error(), "nowhere") {
		t.Errorf("sql = %v, want an error that names the table", got["sql"])
	}
	if n := count(t, s); n != 2 {
		t.Errorf("%d entries, want the 2 good ones", n)
	}
}

func TestLostTransactionFailsItsWholeBatch(t *testing.T) {
	s := open(t, store.Options{})
	run(t, s)
	release := block(t, s)
	results := make(chan error, 2)
	go func() { results <- s.Do(t.Context(), put("a")) }()
	waitQueued(t, s, 1)
	go func() {
		results <- s.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, "ROLLBACK") // what SQLite does by itself on a full disk
			return err
		})
	}()
	waitQueued(t, s, 2)
	release()
	for range 2 {
		if err := <-results; err == nil {
			t.Error("a write of a lost transaction reported success")
		}
	}
	if n := count(t, s); n != 0 {
		t.Errorf("%d entries, want none", n)
	}
	if err := s.Do(t.Context(), put("after")); err != nil {
		t.Errorf("the next write: %v", err)
	}
}

func TestFullQueueIsAnErrorOrAWait(t *testing.T) {
	s := open(t, store.Options{Queue: 2})
	run(t, s)
	release := block(t, s)
	defer release()
	for i := range 2 {
		if err := s.Enqueue(put(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Enqueue(put("third")); !errors.Is(err, store.ErrQueueFull) {
		t.Errorf("Enqueue = %v, want ErrQueueFull", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Do(ctx, put("fourth")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Do = %v, want the end of its context", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- s.Do(t.Context(), put("fifth")) }()
	release()
	if err := <-waited; err != nil {
		t.Errorf("Do after room was made: %v", err)
	}
	if n := count(t, s); n != 3 {
		t.Errorf("%d entries, want 3", n)
	}
}

func TestAbandonedWriteIsNotWritten(t *testing.T) {
	s := open(t, store.Options{})
	run(t, s)
	release := block(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	var ran atomic.Bool
	go func() {
		result <- s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
			ran.Store(true)
			return put("abandoned")(ctx, tx)
		})
	}()
	waitQueued(t, s, 1)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v, want context.Canceled", err)
	}
	release()
	if err := s.Do(t.Context(), put("next")); err != nil {
		t.Fatal(err)
	}
	if ran.Load() || count(t, s) != 1 {
		t.Errorf("the abandoned write ran: %v", ran.Load())
	}
}

func TestStartedWriteIsReportedWhateverItsContextSays(t *testing.T) {
	s := open(t, store.Options{})
	run(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Do(ctx, func(inner context.Context, tx *store.Tx) error {
		cancel()
		if inner.Err() != nil {
			return errors.New("the write's own context has ended")
		}
		return put("k")(inner, tx)
	})
	if err != nil || count(t, s) != 1 {
		t.Errorf("Do = %v with %d entries, want success", err, count(t, s))
	}
}

func TestEnqueuedWriteLingersForCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, store.Options{})
		run(t, s)
		synctest.Wait()
		begin := s.Stats().Batches
		if err := s.Enqueue(put("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(19 * time.Millisecond)
		synctest.Wait()
		if got := s.Stats().Batches - begin; got != 0 {
			t.Errorf("after 19 ms: %d batches, want none", got)
		}
		if err := s.Enqueue(put("b")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got, n := s.Stats().Batches-begin, count(t, s); got != 1 || n != 2 {
			t.Errorf("after 21 ms: %d batches with %d entries, want 1 with 2", got, n)
		}
	})
}

func TestWaitedWriteTakesTheLingeringAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, store.Options{})
		run(t, s)
		if err := s.Enqueue(put("a")); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := s.Do(t.Context(), put("b")); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("Do waited %v for company", waited)
		}
		if n := count(t, s); n != 2 {
			t.Errorf("%d entries, want 2", n)
		}
	})
}

func TestRunPrunesEveryHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, store.Options{})
		run(t, s)
		r := store.CatalogRecord{Server: "files", Spec: "s", SavedAt: time.Now().Add(-30*24*time.Hour + 90*time.Minute)}
		if err := s.Catalogs().Save(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{65 * time.Minute, 1}, {60 * time.Minute, 0}} {
			time.Sleep(step.after)
			synctest.Wait()
			var n int
			err := s.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				return tx.QueryRow(ctx, "SELECT count(*) FROM catalog").Scan(&n)
			})
			if err != nil || n != step.want {
				t.Errorf("after %v: %d catalogs, error %v; want %d", step.after, n, err, step.want)
			}
		}
	})
}

func TestRunDrainsAtItsEnd(t *testing.T) {
	s := open(t, store.Options{})
	stop := run(t, s)
	release := block(t, s)
	for i := range 600 { // more than two batches
		if err := s.Enqueue(put(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	release()
	stop()
	if n := count(t, s); n != 600 {
		t.Errorf("%d entries, want 600", n)
	}
}

func TestCloseDrainsAndEndsRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, store.Options{Path: path})
	ended := make(chan error, 1)
	before := s.Stats().Batches
	go func() { ended <- s.Run(context.Background()) }()
	testwait.Until(t, patience, "Run to start", func() bool { return s.Stats().Batches > before })
	release := block(t, s)
	for i := range 10 {
		if err := s.Enqueue(put(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	release()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	if n := count(t, open(t, store.Options{Path: path})); n != 10 {
		t.Errorf("%d entries, want 10", n)
	}
}

func TestDrainEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, store.Options{})
		stop := run(t, s)
		slow := func(context.Context, *store.Tx) error { time.Sleep(6 * time.Second); return nil }
		first := make(chan error, 1)
		go func() { first <- s.Do(t.Context(), slow) }()
		synctest.Wait() // the first has been taken
		second := make(chan error, 1)
		go func() { second <- s.Do(t.Context(), slow) }()
		synctest.Wait()
		for i := range 256 { // the second's batch is full, this is the next
			if err := s.Enqueue(put(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		if err := <-first; err != nil {
			t.Errorf("what had been started before the end: %v", err)
		}
		if err := <-second; err == nil {
			t.Error("a write of 6 s was committed within a drain of 5 s")
		}
		if got := s.Stats(); got.Queued != 0 || got.Failed != 256 {
			t.Errorf("%d queued and %d failed, want 0 and 256", got.Queued, got.Failed)
		}
	})
}

func TestOnlyOneRunIsActive(t *testing.T) {
	s := open(t, store.Options{})
	run(t, s)
	if err := s.Run(t.Context()); err == nil {
		t.Error("a second Run was accepted")
	}
}

func TestLostWritesAreCounted(t *testing.T) {
	s := open(t, store.Options{})
	run(t, s)
	bad := func(context.Context, *store.Tx) error { return errors.New("no") }
	if err := errors.Join(s.Enqueue(bad), s.Enqueue(bad)); err != nil {
		t.Fatal(err)
	}
	if err := s.Do(t.Context(), put("k")); err != nil { // behind the others
		t.Fatal(err)
	}
	if got := s.Stats().Failed; got != 2 {
		t.Errorf("Failed = %d, want 2", got)
	}
}

// Readers and writers of all kinds at once, for the race detector, while Run
// comes and goes.
func TestConcurrentUse(t *testing.T) {
	s := open(t, store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Queue: 8})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 25 {
				key := fmt.Sprintf("%d/%d", g, i)
				if err := s.Meta().Put(t.Context(), key, []byte(key)); err != nil {
					t.Error(err)
				}
				if v, ok, err := s.Meta().Get(t.Context(), key); err != nil || !ok || string(v) != key {
					t.Errorf("own write of %s is not seen: %q, %v, %v", key, v, ok, err)
				}
				if err := s.Enqueue(put(key + "/e")); err != nil && !errors.Is(err, store.ErrQueueFull) {
					t.Error(err)
				}
				s.Stats()
			}
		})
	}
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
	wg.Wait()
	if got := s.Stats(); got.Failed != 0 || got.Queued != 0 {
		t.Errorf("stats = %+v, want nothing failed or left", got)
	}
}

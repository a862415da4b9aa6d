package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/budget/sqlstore"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// attempt charges one call and reports whether it was granted. An error other than a
// refusal must say what to do.
func attempt(t *testing.T, s budget.Store, call string, says string) bool {
	t.Helper()
	_, err := s.Charge(t.Context(), budgettest.Bill(call, budgettest.Hour("b", "k", 1000)))
	if _, refusal := errors.AsType[*budget.Refusal](err); refusal {
		t.Errorf("a store that fails refuses: %v", err)
	}
	if err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("%q does not say %q", err, says)
	}
	return err == nil
}

// A file that cannot be written denies everything, loses nothing, and is used again as
// soon as it can be.
func TestFileFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		begin func(t *testing.T, s *store.Store, path string) (end func())
		says  string
	}{
		"disk full": {func(t *testing.T, s *store.Store, _ string) func() {
			pragma(t, s, "PRAGMA max_page_count = 1")
			return func() { pragma(t, s, "PRAGMA max_page_count = 1000000") }
		}, "make room"},
		"locked": {func(t *testing.T, s *store.Store, path string) func() {
			pragma(t, s, "PRAGMA busy_timeout = 200")                                    // 5 s otherwise, for each of the groups
			other, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)") // the store itself writes now and then
			if err != nil {
				t.Fatal(err)
			}
			tx, err := other.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec("UPDATE meta SET value = value WHERE key = 'none'"); err != nil {
				t.Fatal(err)
			}
			return func() { _ = errors.Join(tx.Rollback(), other.Close()) }
		}, "locked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			inner := storetest.Opened(t, store.Options{Path: path, Durable: true})
			s := sqlstore.New(inner, nil)
			granted := int64(0)
			for i := range 5 {
				if attempt(t, s, fmt.Sprint("before", i), "") {
					granted++
				}
			}
			end := fault.begin(t, inner, path)
			var all sync.WaitGroup
			var during atomic.Int64
			for i := range 200 { // more than what fits in the pages that there are
				all.Go(func() {
					c := budgettest.Hour("b", "k", 1000)
					other := budgettest.Hour(strings.Repeat("x", 100)+fmt.Sprint(i), strings.Repeat("k", 4000), 1000)
					if _, err := s.Charge(t.Context(), budgettest.Bill(fmt.Sprint("during", i), c, other)); err == nil {
						during.Add(1)
					} else if !strings.Contains(err.Error(), fault.says) && !strings.Contains(err.Error(), "no turn") {
						t.Errorf("%q does not say %q", err, fault.says)
					}
				})
			}
			all.Wait()
			if during.Load() != 0 {
				t.Errorf("%d calls were granted", during.Load())
			}
			end()
			for i := range 5 {
				if attempt(t, s, fmt.Sprint("after", i), "") {
					granted++
				}
			}
			if granted != 10 {
				t.Errorf("%d calls were granted around the fault, want 10", granted)
			}
			if got := used(t, s, "b"); got != granted {
				t.Errorf("%d calls were granted, %d are used", granted, got)
			}
		})
	}
}

func TestFileThatCannotBeWritten(t *testing.T) {
	inner := storetest.Opened(t, store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Durable: true})
	s := sqlstore.New(inner, nil)
	if !attempt(t, s, "before", "") {
		t.Error("the first charge")
	}
	pragma(t, inner, "PRAGMA query_only = 1")
	for i := range 3 {
		if attempt(t, s, fmt.Sprint(i), "cannot be opened or written") {
			t.Error("a charge that was not written is granted")
		}
	}
	if got := used(t, s, "b"); got != 1 {
		t.Errorf("%d are used", got)
	}
}

// pragma sets something of the writing connection.
func pragma(t *testing.T, s *store.Store, text string) {
	t.Helper()
	err := s.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A file has one writer: a second process is told who has it.
func TestFileIsOpenedOnce(t *testing.T) {
	o := store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Durable: true}
	storetest.Opened(t, o)
	_, err := store.Open(t.Context(), o)
	if _, held := errors.AsType[*store.InUseError](err); !held {
		t.Errorf("opened twice: %v", err)
	}
}

// turnTimeout bounds every wait of these tests; nothing waits for it to pass.
const turnTimeout = 30 * time.Second

// A connection that breaks between the commit and its answer costs nothing: the charge
// is repeated, and counted once.
func TestAnswerLostAfterTheCommit(t *testing.T) {
	url := shared.URL(t)
	direct := sqlstore.New(storetest.Opened(t, store.Options{URL: url, Durable: true}), nil)
	var cuts atomic.Int64
	s := sqlstore.New(storetest.Opened(t, store.Options{URL: through(t, url, &cuts), Durable: true}), nil)
	charge := budgettest.Hour("b", "k", 1000)
	charge.Amount = 10
	for i := range 10 {
		b := budgettest.Bill(fmt.Sprint(i), charge)
		if i%2 == 0 {
			cuts.Store(1)
		}
		if got, err := s.Charge(t.Context(), b); err != nil || got[0].Taken != 10 {
			t.Fatalf("charge %d: %+v, %v", i, got, err)
		}
		if i%3 == 0 {
			cuts.Store(1)
		}
		if err := s.Settle(t.Context(), b, []int64{4}); err != nil {
			t.Fatalf("settle %d: %v", i, err)
		}
		if got := used(t, direct, "b"); got != int64(4*(i+1)) {
			t.Fatalf("%d are used after %d calls of 4", got, i+1)
		}
	}
	if left := cuts.Load(); left != 0 {
		t.Errorf("%d cuts were not made", left)
	}
	// If every answer is lost, the call is denied, and charged at most once.
	cuts.Store(100)
	if _, err := s.Charge(t.Context(), budgettest.Bill("lost", charge)); err == nil {
		t.Error("a charge without an answer is granted")
	}
	cuts.Store(0)
	if got := used(t, direct, "b"); got != 40 && got != 50 {
		t.Errorf("%d are used", got)
	}
}

// A PostgreSQL server that hangs denies a charge while its caller still waits: after
// the timeout of a charge, not that of any write.
func TestServerThatHangs(t *testing.T) {
	t.Parallel()
	url := shared.SchemaURL(t)
	s := sqlstore.New(storetest.Opened(t, store.Options{URL: url}), nil)
	if !attempt(t, s, "before", "") {
		t.Fatal("denied before")
	}
	other, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it may have been
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLE budget_window IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if attempt(t, s, "hanging", "") {
		t.Error("granted while nothing is counted")
	}
	const write = 10 * time.Second // what any write may take
	if took := time.Since(began); took > write*9/10 {
		t.Errorf("denied after %v", took)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, turnTimeout, "calls are granted again", func() bool { return attempt(t, s, "after", "") })
}

// through returns the address of a way to the database of url on which so many
// answers to charges are lost, each together with its connection.
func through(t *testing.T, url string, cuts *atomic.Int64) string {
	t.Helper()
	head, folder, _ := strings.Cut(url, "?host=")
	folder = strings.ReplaceAll(folder, "%2F", "/")
	dir, err := os.MkdirTemp("", "cut") //nolint:usetesting // a path to a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
		os.RemoveAll(dir)
	})
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", filepath.Join(folder, ".s.PGSQL.5432"))
			if err != nil {
				client.Close()
				continue
			}
			all.Go(func() { pass(server, client, nil) })
			all.Go(func() { pass(client, server, cuts) })
		}
	})
	return head + "?host=" + dir
}

// pass copies from one connection to the other until either ends. An answer to a
// charge, which the server sends when it has committed, is kept while cuts are
// left.
func pass(to, from net.Conn, cuts *atomic.Int64) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			answer := strings.Contains(string(b[:n]), `"granted"`) || strings.Contains(string(b[:n]), `[{}]`)
			if cuts != nil && answer && cuts.Add(-1) >= 0 {
				return
			}
			if cuts != nil && cuts.Load() < 0 {
				cuts.Store(0)
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Expired records are removed, and nothing else: an hour after two days, a month after
// four hundred, a bill when its time is over.
func TestForgetting(t *testing.T) {
	for name, where := range map[string]func(*testing.T) store.Options{
		"file":     func(t *testing.T) store.Options { return store.Options{Path: filepath.Join(t.TempDir(), "store.db")} },
		"postgres": func(t *testing.T) store.Options { return store.Options{URL: shared.SchemaURL(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := storetest.Opened(t, where(t))
			s := sqlstore.New(inner, nil)
			month := budgettest.Hour("m", "k", 1000)
			month.Measure = "calls/month"
			month.Start, month.End = budget.Month.At(budgettest.Noon, time.UTC)
			bill := budgettest.Bill("c", budgettest.Hour("h", "k", 1000), month)
			if _, err := s.Charge(t.Context(), bill); err != nil {
				t.Fatal(err)
			}
			state := func() string {
				t.Helper()
				again, err := s.Charge(t.Context(), bill) // charged once more where the bill is forgotten
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprintf("%d in the hour, %d in the month", again[0].Used, again[1].Used)
			}
			for _, step := range []struct {
				after time.Duration
				want  string
			}{
				{time.Minute, "1 in the hour, 1 in the month"},
				{2 * time.Hour, "2 in the hour, 2 in the month"}, // the bill is forgotten
				{47 * time.Hour, "3 in the hour, 3 in the month"},
				{51 * time.Hour, "1 in the hour, 4 in the month"}, // and the hour
				{400 * 24 * time.Hour, "1 in the hour, 5 in the month"},
				{410 * 24 * time.Hour, "1 in the hour, 1 in the month"},
			} {
				s = sqlstore.New(inner, nil) // with nothing in memory
				if err := sqlstore.Prune(t.Context(), s, budgettest.Noon.Add(step.after)); err != nil {
					t.Fatal(err)
				}
				if got := state(); got != step.want {
					t.Errorf("after %s: %s, want %s", step.after, got, step.want)
				}
			}
		})
	}
}

// Run prunes at its start, and ends with its context.
func TestRun(t *testing.T) {
	s := inFile(false)(t, 1)[0].(*sqlstore.Store)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestZeroStoreRefuses(t *testing.T) {
	var s sqlstore.Store
	b := budgettest.Bill("a", budgettest.Hour("b", "k", 1))
	if _, err := s.Charge(t.Context(), b); err == nil || s.Settle(t.Context(), b, nil) == nil || s.Run(t.Context()) == nil || s.Exact() {
		t.Error("the zero store does something")
	}
	if _, err := s.Usage(t.Context(), budgettest.Noon, budget.Filter{}, 1); err == nil {
		t.Error("the zero store lists something")
	}
}

func TestExact(t *testing.T) {
	if s := inFile(true)(t, 1)[0]; !s.Exact() {
		t.Error("a durable file is not exact")
	}
	if s := inFile(false)(t, 1)[0]; s.Exact() {
		t.Error("a file that may lose its last writes is exact")
	}
}

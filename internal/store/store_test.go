package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
)

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("modes say nothing here")
		return
	}
	dir := filepath.Join(t.TempDir(), "state", "toolgate")
	path := filepath.Join(dir, "store.db")
	s := open(t, store.Options{Path: path})
	if err := s.Meta().Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	want := map[string]fs.FileMode{dir: 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, path + ".lock": 0o600}
	for name, mode := range want {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != mode {
			t.Errorf("mode of %s = %o, want %o", filepath.Base(name), got, mode)
		}
	}
}

func TestOpenTakesAwayTheRightsOfOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("modes say nothing here")
		return
	}
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, store.Options{Path: path})
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode = %o, want 600", got)
	}
}

func TestPathIsNeverTakenForParameters(t *testing.T) {
	for _, name := range []string{"a b.db", "q?mode=memory&x=1.db", "h#frag.db", "p%41.db", "é.db", "file:x.db"} {
		if runtime.GOOS == "windows" && strings.ContainsAny(name, "?:") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			s := open(t, store.Options{Path: path})
			if err := s.Meta().Put(t.Context(), "k", []byte("v")); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Size() == 0 {
				t.Errorf("nothing was written to %q: %v", name, err)
			}
		})
	}
}

func TestMemoryStoresAreApartAndLeaveNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	a, b := open(t, store.Options{}), open(t, store.Options{Path: store.Memory})
	run(t, a)
	if err := a.Meta().Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := b.Meta().Get(t.Context(), "k"); ok || err != nil {
		t.Errorf("the other store: ok %v, error %v; want no value", ok, err)
	}
	if v, ok, err := a.Meta().Get(t.Context(), "k"); !ok || err != nil || string(v) != "v" {
		t.Errorf("own store: %q, %v, %v; want v", v, ok, err)
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("files left behind: %v, %v", entries, err)
	}
}

func TestDamagedFileIsExplained(t *testing.T) {
	sound := func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "store.db")
		s := open(t, store.Options{Path: path})
		if err := s.Meta().Put(t.Context(), "k", bytes.Repeat([]byte("v"), 60_000)); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, spoil := range map[string]func(b []byte) []byte{
		"not a database": func([]byte) []byte { return bytes.Repeat([]byte("toolgate\n"), 1000) },
		"header":         func(b []byte) []byte { copy(b, "SQLite format 9\x00"); return b },
		"schema page":    func(b []byte) []byte { clear(b[100:4096]); return b },
		"schema garbage": func(b []byte) []byte {
			for i := 100; i < 4096; i++ {
				b[i] = 0xa5
			}
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := sound(t)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, spoil(b), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = store.Open(t.Context(), store.Options{Path: path})
			if err == nil {
				t.Fatal("a damaged file was opened")
			}
			for _, want := range []string{path, "damaged", "move the file away"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			// The lock must not outlive the refusal.
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			for _, side := range []string{"-wal", "-shm"} {
				os.Remove(path + side)
			}
			open(t, store.Options{Path: path})
		})
	}
}

func TestCheckFindsDamageInsideTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, store.Options{Path: path})
	for _, k := range []string{"a", "b", "c", "e", "f", "g", "h", "d"} {
		if err := s.Meta().Put(t.Context(), k, bytes.Repeat([]byte("v"), 60_000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Fatalf("a sound store: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(b) / 2; i < len(b); i++ { // everything but the schema
		b[i] = 0xa5
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, store.Options{Path: path})
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "move the file away") {
		t.Errorf("Check = %v, want what to do about damage", err)
	}
	if _, _, err := s.Meta().Get(t.Context(), "d"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Get = %v, want an error that says damaged", err)
	}
}

func TestDatabaseOfAnotherProgramIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE bookmarks (url TEXT); PRAGMA user_version=1"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(t.Context(), store.Options{Path: path})
	if err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("error = %v, want one that says another program", err)
	}
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := store.Open(t.Context(), store.Options{Path: dir}); err == nil {
		t.Error("a folder was opened as a store")
	}
	if _, err := store.Open(t.Context(), store.Options{ReadOnly: true}); err == nil {
		t.Error("a store in memory was opened for reading only")
	}
}

func TestReadOnlyReadsBesideTheWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if _, err := store.Open(t.Context(), store.Options{Path: path, ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("reading what does not exist: %v, want fs.ErrNotExist", err)
	}
	w := open(t, store.Options{Path: path})
	r := open(t, store.Options{Path: path, ReadOnly: true})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ended); err != nil {
		t.Errorf("Run of a reader: %v", err)
	}
	if err := w.Meta().Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	v, ok, err := r.Meta().Get(t.Context(), "k")
	if err != nil || !ok || string(v) != "v" {
		t.Errorf("reader sees %q, %v, %v; want v", v, ok, err)
	}
	if err := r.Meta().Put(t.Context(), "k", nil); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("write of a reader: %v, want ErrReadOnly", err)
	}
}

func TestReadOnlyReadsWithoutAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	w := open(t, store.Options{Path: path})
	if err := w.Meta().Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := open(t, store.Options{Path: path, ReadOnly: true})
	if v, ok, err := r.Meta().Get(t.Context(), "k"); err != nil || !ok || string(v) != "v" {
		t.Errorf("reader sees %q, %v, %v; want v", v, ok, err)
	}
}

func TestViewCannotWrite(t *testing.T) {
	for _, path := range []string{store.Memory, filepath.Join(t.TempDir(), "store.db")} {
		s := open(t, store.Options{Path: path})
		err := s.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, "DELETE FROM meta")
			return err
		})
		if !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("%s: %v, want ErrReadOnly", path, err)
		}
	}
}

func TestZeroValuesRefuse(t *testing.T) {
	var s store.Store
	ctx := t.Context()
	none := func(context.Context, *store.Tx) error { return nil }
	_, _, metaErr := (&store.Meta{}).Get(ctx, "k")
	_, _, catalogErr := (&store.Catalogs{}).Load(ctx, "a", "b", "c")
	_, idErr := (&store.Capabilities{}).IDs(ctx, nil)
	for name, err := range map[string]error{
		"Do": s.Do(ctx, none), "Enqueue": s.Enqueue(none), "View": s.View(ctx, none), "Run": s.Run(ctx), "Check": s.Check(ctx),
		"Meta.Get": metaErr, "Catalogs.Load": catalogErr, "Capabilities.IDs": idErr,
		"Meta.Put":        (&store.Meta{}).Put(ctx, "k", nil),
		"Catalogs.Save":   (&store.Catalogs{}).Save(ctx, store.CatalogRecord{}),
		"Catalogs.Delete": (&store.Catalogs{}).Delete(ctx, "x"),
	} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s = %v, want ErrClosed", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
}

func TestClosedStoreRefuses(t *testing.T) {
	s := open(t, store.Options{Path: filepath.Join(t.TempDir(), "store.db")})
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.Meta().Put(t.Context(), "k", nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Put = %v, want ErrClosed", err)
	}
	if _, _, err := s.Meta().Get(t.Context(), "k"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Get = %v, want ErrClosed", err)
	}
	if err := s.Run(t.Context()); err == nil {
		t.Error("Run of a closed store returned no error")
	}
}

// Within a process, without polling the database again and again.
func TestOwnChangesAreReportedAtOnce(t *testing.T) {
	s := open(t, store.Options{Path: filepath.Join(t.TempDir(), "store.db")})
	run(t, s)
	store.PollNever(s)
	reports := storetest.StartWatch(t, s)
	for i := range int64(5) {
		if err := s.Modes().Set(t.Context(), "ALERT", store.Change{Actor: "op"}); err != nil {
			t.Fatal(err)
		}
		storetest.Await(t, reports, storetest.Report{Topic: store.TopicMode, Generation: i + 1})
	}
}

// A reader in another process sees the writer's changes by polling.
func TestReaderSeesChangesOfTheWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	w := open(t, store.Options{Path: path})
	reports := storetest.StartWatch(t, open(t, store.Options{Path: path, ReadOnly: true}))
	if err := w.Modes().Set(t.Context(), "ALERT", store.Change{Actor: "op"}); err != nil {
		t.Fatal(err)
	}
	storetest.Await(t, reports, storetest.Report{Topic: store.TopicMode, Generation: 1})
}

// Time stands still here except for the waits. What is reported within a second of the
// bubble is reported by the poll, and nothing polls more often.
func TestWatchAsksEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, store.Options{})
		reports := storetest.StartWatch(t, s)
		synctest.Wait()
		// Bypassing the writer's wake-up, like another process.
		err := s.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO generation (topic, generation) VALUES ('mode', 3)`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{999 * time.Millisecond, 0}, {2 * time.Millisecond, 1}, {5 * time.Second, 1}} {
			time.Sleep(step.after)
			synctest.Wait()
			if len(reports) != step.want {
				t.Errorf("%d reports, want %d", len(reports), step.want)
			}
		}
	})
}

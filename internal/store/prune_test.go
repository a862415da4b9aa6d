package store

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
)

// What has expired goes when a gateway starts, though nobody writes anything.
func TestExpiredRecordsGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	session := func(do func(s *Store)) {
		t.Helper()
		s, err := Open(t.Context(), Options{Path: path, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		do(s)
		stop()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Error(err)
		}
	}
	count := func(s *Store, table string) (n int) {
		t.Helper()
		if err := s.Do(t.Context(), func(ctx context.Context, tx *Tx) error {
			return tx.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n)
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	session(func(s *Store) {
		for _, expires := range []time.Time{time.Now().Add(time.Hour), time.Now().Add(-time.Hour)} {
			if _, err := NewMemories(s).Save(t.Context(), "alice", MemoryRecord{Kind: MemoryText, Name: expires.String(), Body: "text", ExpiresAt: expires}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if _, err := NewSchedules(s).Add(t.Context(), Schedule{Principal: "alice", Tool: "t", DueAt: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Do(t.Context(), func(ctx context.Context, tx *Tx) error {
			_, err := tx.Exec(ctx, `UPDATE schedules SET state = 'made', ended_at = ? WHERE id = (SELECT min(id) FROM schedules)`, nanos(time.Now().Add(-ScheduleKept-time.Hour)))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
	session(func(s *Store) {
		for _, table := range []string{"memories", "schedules"} {
			testwait.Until(t, 10*time.Second, "what has expired is gone from "+table, func() bool { return count(s, table) == 1 })
		}
	})
}

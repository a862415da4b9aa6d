package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// TestVectorsAreForgotten removes what was not used for long, and the least recently used
// of too many. What is loaded counts as used.
func TestVectorsAreForgotten(t *testing.T) {
	s, err := Open(t.Context(), Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		stop()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Error(err)
		}
	}()
	v := NewVectors(s)
	keys := make([]string, 5)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
		if err := v.Save(ctx, "m", map[string][]byte{keys[i]: {1}}); err != nil {
			t.Fatal(err)
		}
	}
	left := func(now time.Time, most int) (n int) {
		t.Helper()
		if err := s.Do(ctx, func(ctx context.Context, tx *Tx) error {
			if err := pruneVectors(ctx, tx, now, most); err != nil {
				return err
			}
			return tx.QueryRow(ctx, `SELECT count(*) FROM vector`).Scan(&n)
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := left(time.Now(), 3); n != 3 {
		t.Errorf("%d are left, want the 3 latest", n)
	}
	if err := s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		_, err := tx.Exec(ctx, `UPDATE vector SET used_at = ?`, nanos(time.Now().Add(-89*24*time.Hour)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := v.Load(ctx, "m", []string{"4", "0"}); err != nil || len(got) != 1 {
		t.Errorf("loaded %v, %v", got, err)
	}
	if n := left(time.Now().Add(2*24*time.Hour), 3); n != 1 {
		t.Errorf("%d are left, want the one that was loaded", n)
	}
}

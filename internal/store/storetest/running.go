package storetest

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/toolgate/toolgate/internal/store"
)

// Running returns an empty store in a file of its own, which runs until the test
// ends.
func Running(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

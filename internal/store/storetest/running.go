package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/store"
)

// Running returns an empty store in a file of its own, which runs until the test ends.
func Running(t testing.TB) *store.Store {
	t.Helper()
	return Opened(t, store.Options{Path: filepath.Join(t.TempDir(), "store.db")})
}

// Opened opens a store, which runs until the test ends.
func Opened(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), o)
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

// Main runs the tests of a package, stops their shared server and checks for leaked
// goroutines. It returns the exit code. Temporary files are in memory if there is room,
// unless TMPDIR is set: on a disk the tests would mostly wait for syncs.
func Main(m *testing.M, shared *Server) int {
	if folder := memory(); folder != "" && os.Getenv("TMPDIR") == "" {
		temp, err := os.MkdirTemp(folder, "storetest")
		if err == nil {
			defer os.RemoveAll(temp)
			err = os.Setenv("TMPDIR", temp)
		}
		if err != nil {
			fmt.Println("a folder for the tests:", err)
			return 1
		}
	}
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Println("stop the PostgreSQL of the tests:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	return code
}

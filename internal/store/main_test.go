package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// childVar makes the test binary a second process that uses a store: its
// value is the path.
const childVar = "STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVar); path != "" {
		if err := child(path); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testwait.AtOnce(0, 8)
	os.Exit(storetest.Main(m, &shared))
}

// shared is the PostgreSQL server of all tests that do not hurt theirs.
var shared storetest.Server

// child opens the store at path, reports that, and writes numbered entries until it is
// killed. It prints a line after each commit.
func child(path string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Options{Path: path})
	if err != nil {
		return err
	}
	go s.Run(ctx) //nolint:errcheck // the process is killed
	fmt.Println("open")
	for i := range 1_000_000 {
		if err := s.Meta().Put(ctx, fmt.Sprintf("n/%07d", i), []byte("x")); err != nil {
			return err
		}
		fmt.Println(i)
	}
	return errors.New("nobody killed this process")
}

// startChild runs child for path and returns its output, positioned behind
// its first line. The process is killed at the end of the test if it still
// lives then.
func startChild(t *testing.T, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childVar+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() || strings.TrimSpace(lines.Text()) != "open" {
		t.Fatalf("child said %q, want %q", lines.Text(), "open")
	}
	return cmd, lines
}

// open opens the store at path and closes it at the end of the test.
func open(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// run starts Run, waits until it is the writer (its first batch is the removal
// of old catalogs), and ends it at the end of the test before the store closes.
func run(t *testing.T, s *store.Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	before := s.Stats().Batches
	go func() { done <- s.Run(ctx) }()
	testwait.Until(t, patience, "Run to start", func() bool { return s.Stats().Batches > before })
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = 30 * time.Second

package store_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A store whose server is down refuses everything, says why, and opens as soon as the
// server is up, with its schema, writes and watches.
func TestStoreThatIsAwaited(t *testing.T) {
	t.Parallel()
	server := storetest.StartPostgres(t)
	url := server.URL(t)
	server.Kill(t)
	if _, err := store.Open(t.Context(), store.Options{URL: url}); err == nil {
		t.Fatal("a store without a server was opened")
	}
	var log lockedBuffer
	s, err := store.Open(t.Context(), store.Options{URL: url, Await: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }() // ends with the context
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	})
	reports := storetest.StartWatch(t, s)
	for what, do := range map[string]func() error{
		"a read":  func() error { _, _, err := s.Modes().Current(ctx); return err },
		"a write": func() error { return s.Modes().Set(ctx, "ALERT", store.Change{Actor: "op"}) },
		"a write that nobody waits for": func() error {
			return s.Enqueue(func(context.Context, *store.Tx) error { return nil })
		},
		"a check": func() error { return s.Check(ctx) },
	} {
		if err := do(); !errors.Is(err, store.ErrUnreached) || !strings.Contains(err.Error(), "cannot connect") {
			t.Errorf("%s without a server: %v", what, err)
		}
	}
	testwait.Until(t, patience, "a word in the log", func() bool { return strings.Contains(log.String(), "cannot be reached") })
	server.Start(t)
	testwait.Until(t, patience, "the store", func() bool { return s.Modes().Set(ctx, "ALERT", store.Change{Actor: "op"}) == nil })
	storetest.Await(t, reports, storetest.Report{Topic: store.TopicMode, Generation: 1})
	if err := s.Check(ctx); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "the store is reached"); n != 1 {
		t.Errorf("said %d times that it is reached: %s", n, log.String())
	}
}

// The wait ends with its context, and with Close.
func TestAwaitedStoreEnds(t *testing.T) {
	t.Parallel()
	o := store.Options{URL: "postgres://u@/db?host=" + t.TempDir(), Await: true}
	for _, byClose := range []bool{false, true} {
		s, err := store.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }() // ends with the context, or with Close
		if !byClose {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if byClose {
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		}
		cancel()
		if err := s.Do(context.Background(), func(context.Context, *store.Tx) error { return nil }); err == nil {
			t.Error("a closed store was written")
		}
	}
}

// Await changes nothing for a server that is up, nor for a file.
func TestAwaitWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]store.Options{"postgres": {URL: shared.URL(t), Await: true}, "file": {Path: t.TempDir() + "/store.db", Await: true}} {
		s := open(t, o)
		if err := s.Modes().Set(t.Context(), "ALERT", store.Change{Actor: "op"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

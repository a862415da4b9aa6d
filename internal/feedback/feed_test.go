package feedback_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/feedback"
)

// desk is a receiver that does what it is told.
type desk struct {
	mu     sync.Mutex
	answer func(try int) error
	tries  int
	ids    []string
	got    []feedback.Event
	closed bool
}

func (d *desk) Send(_ context.Context, id string, batch []feedback.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tries++
	d.ids = append(d.ids, id)
	if d.answer != nil {
		if err := d.answer(d.tries); err != nil {
			return err
		}
	}
	d.got = append(d.got, batch...)
	return nil
}

func (d *desk) Close() { d.closed = true }

func TestFeed(t *testing.T) {
	away := errors.New("away")
	for name, tt := range map[string]struct {
		answer func(int) error
		tries  int
		want   feedback.Stats
	}{
		"at once":       {nil, 1, feedback.Stats{Sent: 3}},
		"later":         {func(n int) error { return map[bool]error{true: away}[n < 4] }, 4, feedback.Stats{Sent: 3}},
		"never":         {func(int) error { return away }, 8, feedback.Stats{Dropped: 3}},
		"not this one":  {func(int) error { return &feedback.FinalError{Err: away} }, 1, feedback.Stats{Dropped: 3}},
		"then not ever": {func(n int) error { return map[bool]error{true: away, false: &feedback.FinalError{Err: away}}[n < 3] }, 3, feedback.Stats{Dropped: 3}},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &desk{answer: tt.answer}
			var log strings.Builder
			f := feedback.NewFeed("test", d, slog.New(slog.NewTextHandler(&log, nil)))
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- f.Run(ctx) }()
			for i := range 3 {
				f.Tell(&feedback.Event{ID: fmt.Sprint(i)})
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait() // the race detector counts this alone as an order
			if f.Stats() != tt.want || d.tries != tt.tries {
				t.Errorf("%s: %+v after %d tries, want %+v after %d", name, f.Stats(), d.tries, tt.want, tt.tries)
			}
			for _, id := range d.ids {
				if id != d.ids[0] || id == "" {
					t.Errorf("%s: the ids of one batch are %q", name, d.ids)
				}
			}
			if n := strings.Count(log.String(), "cannot be delivered"); n > 1 {
				t.Errorf("%s: said %d times", name, n)
			}
			stop()
			if err := <-done; err != nil || !d.closed {
				t.Errorf("%s: %v, closed: %v", name, err, d.closed)
			}
		})
	}
}

// A receiver that is away holds nobody up: what does not fit is counted, and at the
// end everything is either sent or dropped.
func TestFeedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{answer: func(int) error { return errors.New("away") }}
		f := feedback.NewFeed("test", d, nil)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		const events = 50_000
		for range events {
			f.Tell(&feedback.Event{})
		}
		if s := f.Stats(); s.Dropped < events-10_000-500 {
			t.Errorf("%+v while %d events wait", s, events)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if s := f.Stats(); s.Sent+s.Dropped != events {
			t.Errorf("%+v of %d events", s, events)
		}
	})
}

// What was told before the end is delivered.
func TestFeedDeliversTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		f := feedback.NewFeed("test", d, nil)
		ctx, stop := context.WithCancel(t.Context())
		for range 1300 {
			f.Tell(&feedback.Event{})
		}
		stop()
		if err := f.Run(ctx); err != nil || f.Stats() != (feedback.Stats{Sent: 1300}) || len(d.got) != 1300 {
			t.Errorf("%v, %+v, %d", err, f.Stats(), len(d.got))
		}
	})
}

func TestTellAllocatesNothing(t *testing.T) {
	f := feedback.NewFeed("test", &desk{}, nil)
	e := feedback.Event{ID: "x"}
	if n := testing.AllocsPerRun(100, func() { f.Tell(&e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

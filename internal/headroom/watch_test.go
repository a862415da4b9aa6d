package headroom_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/headroom"
)

// gauge is a meter that reads what a test says.
type gauge struct {
	level atomic.Int64
	fault atomic.Pointer[error]
}

func newGauge(l headroom.Level) *gauge {
	g := &gauge{}
	g.set(l)
	return g
}

func (g *gauge) set(l headroom.Level) { g.level.Store(int64(l)) }

func (g *gauge) meter(name string) headroom.Meter {
	return headroom.Meter{Name: name, Read: func() (headroom.Reading, error) {
		if err := g.fault.Load(); err != nil {
			return headroom.Reading{}, *err
		}
		return headroom.Reading{Level: headroom.Level(g.level.Load()), Text: "a reading"}, nil
	}}
}

// told is what a watcher has told.
type told struct {
	mu  sync.Mutex
	all []string
}

func (t *told) check(tb testing.TB, when string, want ...string) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Equal(t.all, want) {
		tb.Errorf("%s: told %q, want %q", when, t.all, want)
	}
}

// watched runs a watcher inside of a bubble. From then on time is half a second
// past its readings, as long as it passes in whole seconds.
func watched(t *testing.T, o headroom.Options) (*headroom.Watcher, *told) {
	t.Helper()
	w, heard := &headroom.Watcher{}, &told{}
	w.Use(o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // ends with the context
		ended <- w.Run(ctx, func(s headroom.Shortage) {
			heard.mu.Lock()
			defer heard.mu.Unlock()
			heard.all = append(heard.all, s.String())
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	pass(headroom.DefaultEvery / 2)
	return w, heard
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestShortageHasToLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge(headroom.Tight)
		_, heard := watched(t, headroom.Options{Meters: []headroom.Meter{g.meter("memory")}})
		const short = "memory: a reading"
		pass(headroom.DefaultAfter - time.Second)
		heard.check(t, "too early")
		g.set(headroom.Between) // for a moment
		pass(time.Second)
		g.set(headroom.Tight)
		pass(headroom.DefaultAfter)
		heard.check(t, "a peak, and then anew")
		pass(time.Second)
		heard.check(t, "it has lasted", short)

		g.set(headroom.Between)
		pass(10 * headroom.DefaultBack)
		heard.check(t, "between is not over", short)
		g.set(headroom.Clear)
		pass(headroom.DefaultBack)
		g.set(headroom.Tight)
		pass(time.Second)
		g.set(headroom.Clear)
		pass(headroom.DefaultBack)
		heard.check(t, "it came back before it was over", short)
		pass(time.Second)
		heard.check(t, "over", short, "")
	})
}

func TestSeveralShortages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, disk := newGauge(headroom.Tight), newGauge(headroom.Clear)
		_, heard := watched(t, headroom.Options{
			Meters: []headroom.Meter{memory.meter("memory"), disk.meter("disk")}, After: time.Second, Back: time.Second,
		})
		pass(2 * time.Second)
		disk.set(headroom.Tight)
		pass(2 * time.Second)
		memory.set(headroom.Clear)
		pass(2 * time.Second)
		disk.set(headroom.Clear)
		pass(2 * time.Second)
		heard.check(t, "one after the other", "memory: a reading", "disk: a reading; memory: a reading", "disk: a reading", "")
	})
}

// What cannot be read holds nothing back, also when it was short before.
func TestUnreadableMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, gone := newGauge(headroom.Tight), errors.New("no such file")
		g.fault.Store(&gone)
		_, heard := watched(t, headroom.Options{Meters: []headroom.Meter{g.meter("disk")}})
		pass(10 * headroom.DefaultAfter)
		heard.check(t, "from the beginning")
		g.fault.Store(nil)
		pass(2 * headroom.DefaultAfter)
		g.fault.Store(&gone)
		pass(2 * headroom.DefaultBack)
		heard.check(t, "later", "disk: a reading", "")
	})
}

// Options are taken over while it runs: a meter that stays keeps its shortage, one
// that is gone takes it along.
func TestUseWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge(headroom.Tight)
		w, heard := watched(t, headroom.Options{})
		pass(time.Minute)
		w.Use(headroom.Options{Meters: []headroom.Meter{g.meter("disk")}})
		pass(2 * headroom.DefaultAfter)
		w.Use(headroom.Options{Meters: []headroom.Meter{g.meter("disk")}, Back: time.Hour})
		pass(time.Minute)
		heard.check(t, "kept", "disk: a reading")
		w.Use(headroom.Options{})
		pass(2 * time.Second)
		heard.check(t, "gone", "disk: a reading", "")
	})
}

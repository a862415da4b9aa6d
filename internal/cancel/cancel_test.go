package cancel_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/cancel"
)

var (
	errOne   = errors.New("one")
	errOther = errors.New("other")
)

type valueKey struct{}

// made is how a test makes a context under another one.
type made func(parent context.Context) (context.Context, context.CancelCauseFunc)

func ours(parent context.Context) (context.Context, context.CancelCauseFunc) {
	c := cancel.New(parent)
	return c, c.Cancel
}

// A chain of three contexts, with values and deadlines in between, ends as one of the library
// does, whichever of them are ours.
func TestEndsAsTheLibrary(t *testing.T) {
	between := map[string]func(context.Context) (context.Context, func()){
		"nothing": func(ctx context.Context) (context.Context, func()) { return ctx, func() {} },
		"a value": func(ctx context.Context) (context.Context, func()) {
			return context.WithValue(ctx, valueKey{}, "v"), func() {}
		},
		"values": func(ctx context.Context) (context.Context, func()) {
			return cancel.WithValues(context.WithValue(ctx, valueKey{}, "v")), func() {}
		},
		"a deadline": func(ctx context.Context) (context.Context, func()) {
			ctx, stop := context.WithTimeoutCause(ctx, time.Second, errOther)
			return ctx, stop
		},
		"no end": func(ctx context.Context) (context.Context, func()) { return context.WithoutCancel(ctx), func() {} },
	}
	acts := map[string]func(all []context.CancelCauseFunc){
		"nothing":          func([]context.CancelCauseFunc) {},
		"the first":        func(all []context.CancelCauseFunc) { all[0](errOne) },
		"the second":       func(all []context.CancelCauseFunc) { all[1](errOne) },
		"the third":        func(all []context.CancelCauseFunc) { all[2](errOne) },
		"without a cause":  func(all []context.CancelCauseFunc) { all[0](nil) },
		"from the last":    func(all []context.CancelCauseFunc) { all[2](errOne); synctest.Wait(); all[0](errOther) },
		"from the first":   func(all []context.CancelCauseFunc) { all[0](errOther); synctest.Wait(); all[2](errOne) },
		"by the deadline":  func([]context.CancelCauseFunc) { <-time.After(2 * time.Second) },
		"twice":            func(all []context.CancelCauseFunc) { all[1](errOne); all[1](errOther) },
		"after a deadline": func(all []context.CancelCauseFunc) { <-time.After(2 * time.Second); all[0](errOne) },
	}
	for gap, in := range between {
		for name, act := range acts {
			for mix := range 8 {
				t.Run(gap+", "+name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						want := chain([3]made{context.WithCancelCause, context.WithCancelCause, context.WithCancelCause}, in, act)
						var kinds [3]made
						for i := range kinds {
							if kinds[i] = context.WithCancelCause; mix&(1<<i) != 0 {
								kinds[i] = ours
							}
						}
						if got := chain(kinds, in, act); got != want {
							t.Errorf("of %03b: %+v, want %+v", mix, got, want)
						}
					})
				})
			}
		}
	}
}

// state is what three contexts show, and which of their watchers ran.
type state struct {
	err, cause [3]error
	done, ran  [3]bool
	value      [3]any
	deadline   [3]bool
}

func chain(kinds [3]made, between func(context.Context) (context.Context, func()), act func([]context.CancelCauseFunc)) state {
	var ctxs []context.Context
	var cancels []context.CancelCauseFunc
	var s state
	var mu sync.Mutex
	ctx := context.Background()
	var stops []func()
	for i, make := range kinds {
		next, cancel := make(ctx)
		ctxs, cancels = append(ctxs, next), append(cancels, cancel)
		context.AfterFunc(next, func() {
			mu.Lock()
			defer mu.Unlock()
			s.ran[i] = true
		})
		var stop func()
		ctx, stop = between(next)
		stops = append(stops, stop)
	}
	act(cancels)
	synctest.Wait()
	mu.Lock()
	got := s
	mu.Unlock()
	for i, c := range ctxs {
		got.err[i], got.cause[i] = c.Err(), context.Cause(c)
		got.value[i] = c.Value(valueKey{})
		_, got.deadline[i] = c.Deadline()
		select {
		case <-c.Done():
			got.done[i] = true
		default:
		}
	}
	for i := range cancels {
		stops[i]()
		cancels[i](nil)
	}
	return got
}

// A context under one that has ended has ended when it begins.
func TestBeginsEnded(t *testing.T) {
	for name, parent := range map[string]made{"ours": ours, "the library's": context.WithCancelCause} {
		ctx, end := parent(t.Context())
		end(errOne)
		for what, under := range map[string]context.Context{"itself": ctx, "with a value": context.WithValue(ctx, valueKey{}, 1)} {
			c := cancel.New(under)
			if c.Err() != context.Canceled || context.Cause(c) != errOne { //nolint:errorlint // these very errors
				t.Errorf("%s, %s: %v, %v", name, what, c.Err(), context.Cause(c))
			}
			c.Cancel(errOther)
			if context.Cause(c) != errOne { //nolint:errorlint // the very error
				t.Errorf("%s, %s: then %v", name, what, context.Cause(c))
			}
		}
	}
}

// The end of a parent shows at once.
func TestEndsAtOnce(t *testing.T) {
	for name, kind := range map[string]made{"ours": ours, "the library's": context.WithCancelCause} {
		for range 100 {
			parent, end := kind(t.Context())
			one := cancel.New(parent)
			two := cancel.New(context.WithValue(one, valueKey{}, 1))
			end(errOne)
			if two.Err() == nil || context.Cause(two) != errOne { //nolint:errorlint // the very error
				t.Fatalf("%s: %v, %v", name, two.Err(), context.Cause(two))
			}
			two.Cancel(nil)
			one.Cancel(nil)
		}
	}
}

// A watch calls its function once, and not after it was stopped. It can be used again.
func TestWatch(t *testing.T) {
	for name, kind := range map[string]made{"ours": ours, "the library's": context.WithCancelCause} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w cancel.Watch
				var ran []int
				for i := range 4 {
					ctx, end := kind(context.Background())
					if i == 3 {
						end(nil) // before anybody watches
					}
					w.Over(ctx, func() { ran = append(ran, i) })
					if i == 1 {
						end(nil)
					}
					synctest.Wait()
					if stopped := w.Stop(); stopped == (i == 1 || i == 3) {
						t.Errorf("%d: stopped: %v", i, stopped)
					}
					if w.Stop() {
						t.Errorf("%d: stopped twice", i)
					}
					end(nil)
					synctest.Wait()
				}
				if len(ran) != 2 || ran[0] != 1 || ran[1] != 3 {
					t.Errorf("ran at %v", ran)
				}
			})
		})
	}
	if new(cancel.Watch).Stop() {
		t.Error("stopped nothing")
	}
}

// Watches that go in any order leave those that stay, and a context that ends does so for all of
// its children, while others come and go.
func TestManyWatches(t *testing.T) {
	parent := cancel.New(t.Context())
	var stay sync.WaitGroup
	var all sync.WaitGroup
	for range 8 {
		stay.Add(1)
		context.AfterFunc(cancel.New(parent), stay.Done)
		all.Go(func() {
			var few [5]*cancel.Context
			for i := range 2000 {
				if c := few[i%5]; c != nil {
					c.Cancel(nil)
				}
				few[i%5] = cancel.New(parent)
				if i%7 == 0 {
					few[(i*3)%5], few[i%5] = few[i%5], few[(i*3)%5]
				}
			}
			for _, c := range few {
				<-c.Done()
				if context.Cause(c) != errOne { //nolint:errorlint // the very error
					t.Errorf("a child ended with %v", context.Cause(c))
				}
			}
		})
		all.Go(func() {
			var w cancel.Watch
			for range 2000 {
				w.Over(parent, func() {})
				if !w.Stop() {
					return // it has ended
				}
			}
		})
	}
	parent.Cancel(errOne)
	all.Wait()
	stay.Wait()
}

// A context that lies in other memory costs nothing more, and neither does a watch.
func TestAllocations(t *testing.T) {
	type memory struct {
		one, two cancel.Context
		watch    cancel.Watch
	}
	root := cancel.New(t.Context())
	nothing := func() {}
	if n := testing.AllocsPerRun(100, func() {
		m := new(memory)
		m.one.Begin(root)
		m.two.Begin(&m.one)
		m.watch.Over(&m.two, nothing)
		m.watch.Stop()
		m.two.Cancel(nil)
		m.one.Cancel(nil)
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// What is derived from a context with values needs no goroutine.
func TestWithValuesNeedsNoGoroutine(t *testing.T) {
	for name, with := range map[string]struct {
		under func(context.Context) context.Context
		many  bool
	}{
		"values":      {under: func(ctx context.Context) context.Context { return ctx }, many: true},
		"with values": {under: cancel.WithValues},
	} {
		t.Run(name, func(t *testing.T) {
			c := cancel.New(context.Background())
			defer c.Cancel(nil)
			ctx := with.under(context.WithValue(c, valueKey{}, "v"))
			before := runtime.NumGoroutine()
			for range 100 {
				_, stop := context.WithTimeoutCause(ctx, time.Hour, errOne)
				defer stop()
			}
			if more := runtime.NumGoroutine() - before; (more >= 100) != with.many {
				t.Errorf("%d more goroutines", more)
			}
		})
	}
}

// What ends otherwise than the Context above it stays as it is.
func TestWithValuesOfOthers(t *testing.T) {
	ended, end := context.WithCancel(cancel.New(context.Background()))
	defer end()
	for _, ctx := range []context.Context{t.Context(), context.Background(), ended, context.WithoutCancel(ended)} {
		if got := cancel.WithValues(ctx); got != ctx {
			t.Errorf("%v became %v", ctx, got)
		}
	}
}

package cancel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/cancel"
)

// A chain of contexts with timeouts of their own, in every order, ends as one of the library does.
func TestTimeoutsEndAsTheLibrary(t *testing.T) {
	type within func(context.Context, time.Duration, error) (context.Context, context.CancelFunc)
	bounded := func(with within, timeout time.Duration, cause error) made {
		return func(parent context.Context) (context.Context, context.CancelCauseFunc) {
			ctx, stop := with(parent, timeout, cause)
			return ctx, func(error) { stop() }
		}
	}
	between := map[string]func(context.Context) (context.Context, func()){
		"nothing": func(ctx context.Context) (context.Context, func()) { return ctx, func() {} },
		"values": func(ctx context.Context) (context.Context, func()) {
			return cancel.WithValues(context.WithValue(ctx, valueKey{}, "v")), func() {}
		},
		"an own context": func(ctx context.Context) (context.Context, func()) {
			c := cancel.New(ctx)
			return c, func() { c.Cancel(nil) }
		},
	}
	acts := map[string]func(all []context.CancelCauseFunc){
		"none":       func([]context.CancelCauseFunc) {},
		"soon":       func([]context.CancelCauseFunc) { <-time.After(1500 * time.Millisecond) },
		"late":       func([]context.CancelCauseFunc) { <-time.After(time.Minute) },
		"the first":  func(all []context.CancelCauseFunc) { all[0](nil) },
		"the second": func(all []context.CancelCauseFunc) { all[1](nil); <-time.After(time.Minute) },
		"the third":  func(all []context.CancelCauseFunc) { <-time.After(1500 * time.Millisecond); all[2](nil) },
	}
	first, second := []time.Duration{0, time.Second, 3 * time.Second}, []time.Duration{0, 1200 * time.Millisecond, 4 * time.Second}
	for gap, in := range between {
		for name, act := range acts {
			for mix := range 8 * len(first) * len(second) {
				order := [3]time.Duration{first[mix/8%len(first)], second[mix/8/len(first)], 2 * time.Second}
				t.Run(gap+", "+name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var library, mixed [3]made
						for i := range order {
							cause := []error{errOne, errOther, nil}[i]
							library[i] = bounded(context.WithTimeoutCause, order[i], cause)
							if mixed[i] = library[i]; mix&(1<<i) != 0 {
								mixed[i] = bounded(cancel.WithTimeoutCause, order[i], cause)
							}
						}
						want := chain(library, in, act)
						if got := chain(mixed, in, act); got != want {
							t.Errorf("of %v, %03b: %+v, want %+v", order, mix%8, got, want)
						}
					})
				})
			}
		}
	}
}

// The deadline is the first of all of them.
func TestDeadlines(t *testing.T) {
	outer, stop := cancel.WithTimeoutCause(t.Context(), time.Hour, nil)
	defer stop()
	by, ok := outer.Deadline()
	if left := time.Until(by); !ok || left > time.Hour || left < 59*time.Minute {
		t.Errorf("in %v, %v", left, ok)
	}
	for timeout, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, 2 * time.Hour: time.Hour} {
		inner, stop := cancel.WithTimeoutCause(outer, timeout, nil)
		defer stop()
		by, ok := cancel.New(context.WithValue(inner, valueKey{}, 1)).Deadline()
		if left := time.Until(by); !ok || left > want || left < want-time.Minute/2 {
			t.Errorf("of %v: in %v, %v", timeout, left, ok)
		}
	}
}

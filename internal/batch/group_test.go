package batch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/batch"
)

func one(int) int { return 1 }

// TestTogether lets many come while the first is done: they are done together, in
// their order, at most so many at once.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g batch.Group[int]
		var groups [][]int
		release := make(chan struct{})
		g.Init(func(_ context.Context, all []int) error {
			groups = append(groups, slices.Clone(all))
			<-release
			return nil
		}, one, 3, 0, time.Minute)
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				if err := g.Do(t.Context(), i); err != nil {
					t.Errorf("%d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		close(release)
		all.Wait()
		if diff := cmp.Diff([][]int{{0}, {1, 2, 3}, {4, 5}}, groups); diff != "" {
			t.Errorf("groups (-want +got):\n%s", diff)
		}
	})
}

// TestHeavy does one alone that has more weight than a group may.
func TestHeavy(t *testing.T) {
	var g batch.Group[int]
	g.Init(func(_ context.Context, all []int) error {
		if len(all) != 1 {
			t.Errorf("done together: %v", all)
		}
		return nil
	}, func(i int) int { return i }, 3, 0, time.Minute)
	if err := g.Do(t.Context(), 100); err != nil {
		t.Error(err)
	}
}

// TestGather waits a moment for more where many come, and only there.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g batch.Group[int]
		var sizes []int
		g.Init(func(_ context.Context, all []int) error {
			sizes = append(sizes, len(all))
			return nil
		}, one, 100, time.Second, time.Minute)
		begin := time.Now()
		for range 7 {
			if err := g.Do(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("waited %v where few come", waited)
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { _ = g.Do(t.Context(), 0) })
		}
		all.Wait()
		if waited := time.Since(begin); waited != time.Second || len(sizes) != 8 || sizes[7] != 20 {
			t.Errorf("groups of %v after %v, want 20 in the last, after a second", sizes, waited)
		}
	})
}

// TestLeave lets one give up while it waits: it is not done.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g batch.Group[int]
		var done []int
		release := make(chan struct{})
		g.Init(func(_ context.Context, all []int) error {
			<-release
			done = append(done, all...)
			return nil
		}, one, 100, 0, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = g.Do(t.Context(), 1) })
		synctest.Wait()
		all.Go(func() {
			if err := g.Do(ctx, 2); !errors.Is(err, context.Canceled) {
				t.Errorf("gave up with %v", err)
			}
		})
		all.Go(func() { _ = g.Do(t.Context(), 3) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		all.Wait()
		if diff := cmp.Diff([]int{1, 3}, done); diff != "" {
			t.Errorf("done (-want +got):\n%s", diff)
		}
		if err := g.Do(ctx, 4); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestPatience lets some wait for one who does not end: each is sent away after its
// own time, is not done, and those who come later go on.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g batch.Group[int]
		var done []int
		release := make(chan struct{})
		g.Init(func(_ context.Context, all []int) error {
			<-release
			done = append(done, all...)
			return nil
		}, one, 1, 0, 5*time.Second)
		var all sync.WaitGroup
		wait := func(i int, sentAway bool) {
			all.Go(func() {
				began := time.Now()
				err := g.Do(t.Context(), i)
				if waited := time.Since(began); sentAway != (err != nil) || sentAway && (waited != 5*time.Second || !strings.Contains(err.Error(), "no turn within 5s")) {
					t.Errorf("%d: %v after %v", i, err, waited)
				}
			})
			synctest.Wait()
		}
		wait(0, false) // has its turn at once, however long that takes
		wait(1, true)
		time.Sleep(3 * time.Second)
		wait(2, true)
		wait(3, true)
		time.Sleep(4 * time.Second)
		wait(4, false) // sees the end of the first
		time.Sleep(2 * time.Second)
		wait(5, false)
		close(release)
		all.Wait()
		if diff := cmp.Diff([]int{0, 4, 5}, done); diff != "" {
			t.Errorf("done (-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute) // nobody waits, and nobody is sent away
		if err := g.Do(t.Context(), 6); err != nil {
			t.Error(err)
		}
	})
}

// TestFault fails all of a group, and lets those behind it go on.
func TestFault(t *testing.T) {
	failure := errors.New("no")
	for name, fault := range map[string]func() error{
		"an error": func() error { return failure },
		"a panic":  func() error { panic("no") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g batch.Group[int]
				release := make(chan struct{})
				g.Init(func(_ context.Context, all []int) error {
					<-release
					if slices.Contains(all, 1) {
						return fault()
					}
					return nil
				}, one, 2, 0, time.Minute)
				errs := make([]error, 4)
				var all sync.WaitGroup
				for i, v := range []int{0, 1, 2, 3} {
					all.Go(func() { errs[i] = g.Do(t.Context(), v) })
					synctest.Wait()
				}
				close(release)
				all.Wait()
				for i, err := range errs {
					if bad := i == 1 || i == 2; bad != (err != nil) || bad && !strings.Contains(err.Error(), "no") {
						t.Errorf("%d: %v", i, err)
					}
				}
			})
		})
	}
}

// TestBusy refuses those that are too many.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g batch.Group[int]
		release := make(chan struct{})
		g.Init(func(context.Context, []int) error { <-release; return nil }, one, 1<<20, 0, time.Minute)
		var all sync.WaitGroup
		all.Go(func() { _ = g.Do(t.Context(), 0) })
		synctest.Wait()
		for range batch.MaxWaiting {
			all.Go(func() { _ = g.Do(t.Context(), 0) })
		}
		synctest.Wait()
		if err := g.Do(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "too many") {
			t.Errorf("one too many: %v", err)
		}
		close(release)
		all.Wait()
	})
}

package follow_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/daemon/follow"
)

// table is rows of a store and what is served of them.
type table struct {
	mu             sync.Mutex
	stored, loaded int
	served, steps  int
	err            error // of serving
	late           int
}

func (t *table) load(context.Context) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := t.loaded != t.stored
	t.loaded = t.stored
	return changed, nil
}

func (t *table) apply(ctx context.Context, load func(context.Context) (bool, error)) error {
	if changed, err := load(ctx); err != nil || !changed {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps++
	if t.err == nil {
		t.served = t.loaded
	}
	return t.err
}

func (t *table) change() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stored++
}

func (t *table) follower() *follow.Follower {
	return follow.New(follow.Options{
		Load: t.load, Apply: t.apply,
		Unserved: func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.loaded = -1
		},
		Late: func(error) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.late++
		},
	})
}

// Callers who change rows in a loop have them served in few steps, and each has its own
// rows served when it returns.
func TestStepsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := &table{}
		f := rows.follower()
		begun := time.Now()
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				for range 10 {
					rows.change()
					rows.mu.Lock()
					own := rows.stored
					rows.mu.Unlock()
					if err := f.Apply(t.Context()); err != nil {
						t.Error(err)
					}
					rows.mu.Lock()
					if rows.served < own {
						t.Errorf("%d is served after the change %d", rows.served, own)
					}
					rows.mu.Unlock()
				}
			})
		}
		callers.Wait()
		if most := int(time.Since(begun)/(250*time.Millisecond)) + 1; rows.steps > most || rows.served != 200 {
			t.Errorf("%d steps for 200 changes, at most %d in %s; %d served", rows.steps, most, time.Since(begun), rows.served)
		}
	})
}

// One change alone is served at once.
func TestFirstStepIsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, begun := &table{}, time.Now()
		f := rows.follower()
		rows.change()
		if err := f.Apply(t.Context()); err != nil || rows.served != 1 || time.Since(begun) != 0 {
			t.Errorf("%v, %d, after %s", err, rows.served, time.Since(begun))
		}
		for range 3 { // nothing has changed
			if err := f.Apply(t.Context()); err != nil || rows.steps != 1 {
				t.Errorf("%v, %d steps", err, rows.steps)
			}
		}
	})
}

// A caller who leaves does not take the change of another one with it.
func TestCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := &table{}
		f := rows.follower()
		rows.change()
		if err := f.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		leaving, leave := context.WithCancel(t.Context())
		rows.change()
		var callers sync.WaitGroup
		callers.Go(func() {
			if err := f.Apply(leaving); !errors.Is(err, context.Canceled) {
				t.Errorf("the one who leaves: %v", err)
			}
		})
		synctest.Wait()
		callers.Go(func() {
			if err := f.Apply(t.Context()); err != nil || rows.served != 2 {
				t.Errorf("the one who stays: %v, %d", err, rows.served)
			}
		})
		synctest.Wait()
		leave()
		callers.Wait()
	})
}

// What cannot be served is tried again until it can.
func TestServingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := &table{err: errors.New("no memory")}
		f := rows.follower()
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		rows.change()
		f.Changed()
		time.Sleep(10 * time.Second)
		rows.mu.Lock()
		if rows.late == 0 || rows.late > 11 || rows.served != 0 {
			t.Errorf("told %d times in 10 s, %d served", rows.late, rows.served)
		}
		rows.err = nil
		rows.mu.Unlock()
		time.Sleep(2 * time.Second)
		rows.mu.Lock()
		if rows.served != 1 {
			t.Errorf("%d served", rows.served)
		}
		rows.mu.Unlock()
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

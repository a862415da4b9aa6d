package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/schedule"
	"github.com/toolgate/toolgate/internal/store"
)

// table is the planned calls in memory.
type table struct {
	mu    sync.Mutex
	calls []store.Schedule
	lease map[string]time.Time
	err   error
}

func (t *table) plan(id string, at time.Time) { t.planFor("p", id, at) }

func (t *table) planFor(principal, id string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, store.Schedule{ID: id, Principal: principal, Credential: "key", DueAt: at, State: store.SchedulePlanned})
}

func (t *table) Next(_ context.Context, but ...string) (due time.Time, ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.calls {
		if c.State == store.SchedulePlanned && !slices.Contains(but, c.Principal) && (!ok || c.DueAt.Before(due)) {
			due, ok = c.DueAt, true
		}
	}
	return due, ok, t.err
}

func (t *table) Claim(_ context.Context, _ string, missed, lease time.Time, but ...string) (store.Schedule, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.calls {
		switch c := &t.calls[i]; {
		case c.State != store.SchedulePlanned || slices.Contains(but, c.Principal) || c.DueAt.After(time.Now()):
		case c.DueAt.Before(missed):
			c.State = store.ScheduleMissed
		default:
			c.State = store.ScheduleRunning
			t.lease[c.ID] = lease
			return *c, true, t.err
		}
	}
	return store.Schedule{}, false, t.err
}

func (t *table) Renew(_ context.Context, id, _ string, lease time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lease[id] = lease
	return nil
}

func (t *table) Finish(_ context.Context, id, _, state string, end store.ScheduleEnd) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.calls, func(c store.Schedule) bool { return c.ID == id })
	t.calls[i].State, t.calls[i].ScheduleEnd = state, end
	return true, t.err
}

func (t *table) Lose(context.Context) (n int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.calls {
		if c := &t.calls[i]; c.State == store.ScheduleRunning && t.lease[c.ID].Before(time.Now()) {
			c.State = store.ScheduleLost
			n++
		}
	}
	return n, t.err
}

func (t *table) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
}

func (t *table) states() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := ""
	for _, c := range t.calls {
		out += c.ID + " " + c.State + ";"
	}
	return out
}

// rig is a runner on a table. Its owner is known until it is forgotten.
type rig struct {
	*schedule.Runner
	*table
	mu        sync.Mutex
	on, known bool
	made      []string
	end       context.CancelFunc // of claims
	cut       context.CancelFunc // of calls
	ended     chan error
}

// newRig runs a runner in the bubble of a test. make makes its calls.
func newRig(t *testing.T, make func(ctx context.Context, id string) string) *rig {
	t.Helper()
	r := &rig{table: &table{lease: map[string]time.Time{}}, on: true, known: true, ended: newEnded()}
	r.Runner = schedule.New(schedule.Options{
		Log: slog.New(slog.DiscardHandler), Calls: r.table,
		On: func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.on
		},
		Present: func(principal, credential string) (*gate.Identity, bool) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return &gate.Identity{Persona: principal + credential}, r.known
		},
		Make: func(ctx context.Context, present func() (*gate.Identity, bool), c *store.Schedule) (string, store.ScheduleEnd) {
			id, _ := present()
			r.mu.Lock()
			r.made = append(r.made, fmt.Sprint(c.ID, " ", id.Persona))
			r.mu.Unlock()
			return make(ctx, c.ID), store.ScheduleEnd{}
		},
	})
	claims, end := context.WithCancel(context.Background())
	calls, cut := context.WithCancel(context.Background())
	r.end, r.cut = end, cut
	go func() { r.ended <- r.Run(claims, calls) }()
	t.Cleanup(func() {
		end()
		cut()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func newEnded() chan error { return make(chan error, 1) }

func (r *rig) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// after lets time pass and requires the states of all calls then.
func (r *rig) after(t *testing.T, d time.Duration, want string) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	if got := r.states(); got != want {
		t.Errorf("after %s: %s, want %s", d, got, want)
	}
}

func at(d time.Duration) time.Time { return time.Now().Add(d) }

func TestCallsAreMadeAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(context.Context, string) string { return store.ScheduleMade })
		r.plan("b", at(2*time.Hour))
		r.plan("a", at(90*time.Second))
		r.Changed()
		r.after(t, 90*time.Second-time.Millisecond, "b planned;a planned;")
		r.after(t, time.Millisecond, "b planned;a made;")
		r.after(t, 2*time.Hour, "b made;a made;")
		if want := []string{"a pkey", "b pkey"}; !slices.Equal(r.made, want) {
			t.Errorf("made %q", r.made)
		}
	})
}

// A call whose owner is not known any more, and one that is due when no gateway runs, is
// not made. One that is a little late is.
func TestCallsThatAreNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(_ context.Context, id string) string {
			if id == "panics" {
				panic("no")
			}
			return store.ScheduleMade
		})
		r.set(func() { r.on = false })
		synctest.Wait()
		r.plan("missed", at(time.Second))
		r.plan("late", at(time.Hour))
		r.after(t, 2*time.Hour-time.Second, "missed planned;late planned;")
		r.set(func() { r.on = true })
		r.Changed()
		r.after(t, 0, "missed missed;late made;")
		r.set(func() { r.known = false })
		r.plan("gone", at(time.Second))
		r.Changed()
		r.after(t, time.Second, "missed missed;late made;gone refused;")
		if len(r.made) != 1 {
			t.Errorf("made %q", r.made)
		}
		r.set(func() { r.known = true })
		r.plan("panics", at(time.Second))
		r.Changed()
		r.after(t, time.Second, "missed missed;late made;gone refused;panics failed;")
	})
}

// A call that takes long keeps its claim, and one that takes too long is ended.
func TestLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(ctx context.Context, _ string) string {
			<-ctx.Done()
			return store.ScheduleFailed
		})
		r.plan("a", at(0))
		r.Changed()
		r.after(t, 10*time.Minute-time.Second, "a running;")
		r.after(t, time.Second, "a failed;")
	})
}

// The claim of a gateway that has died ends, and its call is not made again.
func TestCallOfADeadGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(context.Context, string) string { return store.ScheduleMade })
		r.plan("a", at(0))
		if _, ok, _ := r.Claim(t.Context(), "another", at(-time.Hour), at(20*time.Second)); !ok {
			t.Fatal("not claimed")
		}
		r.after(t, 19*time.Second, "a running;")
		r.after(t, 2*time.Minute, "a lost;")
		if len(r.made) != 0 {
			t.Errorf("made %q", r.made)
		}
	})
}

// At most eight of one principal run at once, and the others follow at once.
func TestCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most, now := 0, 0
		var mu sync.Mutex
		r := newRig(t, func(context.Context, string) string {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return store.ScheduleMade
		})
		for i := range 20 {
			r.plan(fmt.Sprint(i), at(0))
		}
		r.Changed()
		time.Sleep(3*time.Second + time.Millisecond)
		synctest.Wait()
		if most != 8 || len(r.made) != 20 {
			t.Errorf("%d at once, %d made", most, len(r.made))
		}
	})
}

// Calls of many that wait for long do not keep another one from making a call, and those who
// are many have few places each.
func TestPlacesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := map[string]int{}
		var mu sync.Mutex
		r := newRig(t, func(ctx context.Context, id string) string {
			who, _, _ := strings.Cut(id, " ")
			mu.Lock()
			running[who]++
			mu.Unlock()
			<-ctx.Done()
			return store.ScheduleFailed
		})
		for i := range 9 {
			for j := range 32 {
				r.planFor(fmt.Sprint(i), fmt.Sprintf("%d %d", i, j), at(0))
			}
		}
		r.Changed()
		synctest.Wait()
		r.planFor("late", "late 1", at(time.Second))
		r.planFor("late", "late 2", at(time.Second))
		r.Changed()
		time.Sleep(time.Second)
		synctest.Wait()
		all := 0
		for who, n := range running {
			if all += n; n > 8 {
				t.Errorf("%s has %d running", who, n)
			}
		}
		if running["late"] != 1 || all > 64 || all < 60 || len(running) != 10 {
			t.Errorf("%v", running)
		}
	})
}

// A store that fails is asked again, and nothing is made without it.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(context.Context, string) string { return store.ScheduleMade })
		r.fail(errors.New("no store"))
		r.plan("a", at(time.Second))
		r.Changed()
		r.after(t, time.Minute, "a planned;")
		r.fail(nil)
		r.after(t, 2*time.Second, "a made;")
	})
}

// A gateway that ends claims nothing more, and waits for what it has begun.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(ctx context.Context, _ string) string {
			select {
			case <-ctx.Done():
				return store.ScheduleFailed
			case <-time.After(5 * time.Second):
				return store.ScheduleMade
			}
		})
		r.plan("a", at(0))
		r.plan("c", at(time.Minute))
		r.Changed()
		synctest.Wait()
		r.end()
		r.plan("b", at(0))
		r.Changed()
		r.after(t, time.Second, "a running;c planned;b planned;")
		r.cut()
		r.after(t, 0, "a failed;c planned;b planned;")
		r.after(t, time.Hour, "a failed;c planned;b planned;")
	})
}

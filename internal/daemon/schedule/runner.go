package schedule

import (
	"context"
	"crypto/rand"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/store"
)

const (
	// maxRunning bounds the planned calls that one gateway makes at once, and maxOfOne
	// those of one principal.
	maxRunning, maxOfOne = 64, 8
	// maxLate is how late a call may still be made, when no gateway ran at its time.
	maxLate = time.Hour
	// callTime bounds one call, with the wait for an approval.
	callTime = 10 * time.Minute
	// lease is how long a claim stands that is not renewed.
	lease = 30 * time.Second
	// look is how often the store is asked for something to do when nothing is known to
	// be due: another gateway may have died.
	look = 30 * time.Second
	// storeTime bounds one request to the store, and storePause is the pause after one
	// that has failed.
	storeTime, storePause = 10 * time.Second, 2 * time.Second
)

// Calls are the planned calls, as [store.Schedules] has them.
type Calls interface {
	Next(ctx context.Context, but ...string) (due time.Time, ok bool, err error)
	Claim(ctx context.Context, holder string, missed, lease time.Time, but ...string) (store.Schedule, bool, error)
	Renew(ctx context.Context, id, holder string, lease time.Time) error
	Finish(ctx context.Context, id, holder, state string, end store.ScheduleEnd) (bool, error)
	Lose(ctx context.Context) (int64, error)
}

// Options are what a [Runner] needs. All of it but Lease is required.
type Options struct {
	Log   *slog.Logger
	Calls Calls
	// On tells whether planned calls are made at all.
	On func() bool
	// Present returns a principal with the rights that it has now; false when it is not
	// known any more by the credential that it had.
	Present func(principal, credential string) (*gate.Identity, bool)
	// Make makes a call, and returns one of the final states with what the owner is told.
	// It checks everything that is checked for a call of a client. It returns soon after
	// its context has ended. present returns what Present does, at any moment of the call.
	Make func(ctx context.Context, present func() (*gate.Identity, bool), call *store.Schedule) (state string, end store.ScheduleEnd)
	// Lease is how long a claim stands that is not renewed; 30 s when zero.
	Lease time.Duration
}

// Runner makes planned calls. Make it with [New]; it does nothing before [Runner.Run].
type Runner struct {
	o       Options
	holder  string
	changed chan struct{} // capacity 1: there may be something to do
	places  places
	running sync.WaitGroup
}

// New returns a runner. Its claims are told from those of every other.
func New(o Options) *Runner {
	if o.Lease == 0 {
		o.Lease = lease
	}
	return &Runner{o: o, holder: rand.Text(), changed: make(chan struct{}, 1), places: places{of: map[string]int{}}}
}

// Changed reports that the planned calls have changed, or whether they are made.
func (r *Runner) Changed() {
	select {
	case r.changed <- struct{}{}:
	default: // the pending token covers this change, too
	}
}

// Run makes calls until claims ends, and then waits for those under way, which end with
// calls.
func (r *Runner) Run(claims, calls context.Context) error {
	defer r.running.Wait()
	claims, stop := context.WithCancel(claims)
	defer stop()
	defer context.AfterFunc(calls, stop)()
	for {
		wait := look
		if r.o.On() {
			wait = r.round(claims, calls)
		}
		timer := time.NewTimer(wait)
		select {
		case <-claims.Done():
			timer.Stop()
			return nil
		case <-r.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// round starts everything that is due, and returns how long to wait for the next. A call
// that ends wakes Run, so that a full round waits for that.
func (r *Runner) round(claims, calls context.Context) (wait time.Duration) {
	ctx, cancel := context.WithTimeout(claims, storeTime)
	defer cancel()
	switch n, err := r.o.Calls.Lose(ctx); {
	case err != nil:
		return r.failed(claims, err)
	case n > 0:
		r.o.Log.Warn("planned calls were lost with the gateway that made them", "calls", n)
	}
	for {
		full, but := r.places.taken()
		if full {
			return look
		}
		call, ok, err := r.claim(claims, but)
		switch {
		case err != nil:
			return r.failed(claims, err)
		case !ok:
			return r.next(claims, but)
		}
		r.places.take(call.Principal)
		r.running.Go(func() {
			defer r.Changed()
			defer r.places.free(call.Principal)
			r.run(calls, &call)
		})
	}
}

// claim takes the first call that is due, but for those of some principals.
func (r *Runner) claim(ctx context.Context, but []string) (store.Schedule, bool, error) {
	if ctx.Err() != nil {
		return store.Schedule{}, false, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	now := time.Now()
	return r.o.Calls.Claim(ctx, r.holder, now.Add(-maxLate), now.Add(r.o.Lease), but...)
}

// next returns how long it is until the next call is due, but for those of some principals.
func (r *Runner) next(claims context.Context, but []string) time.Duration {
	ctx, cancel := context.WithTimeout(claims, storeTime)
	defer cancel()
	due, ok, err := r.o.Calls.Next(ctx, but...)
	switch {
	case err != nil:
		return r.failed(claims, err)
	case !ok:
		return look
	}
	return min(look, max(time.Until(due), time.Millisecond))
}

func (r *Runner) failed(ctx context.Context, err error) time.Duration {
	if ctx.Err() == nil {
		r.o.Log.Warn("planned calls cannot be read; they wait", "err", err)
	}
	return storePause
}

// run makes a claimed call and records its end.
func (r *Runner) run(ctx context.Context, call *store.Schedule) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	renewed := r.renew(ctx, call.ID)
	state, end := r.make(ctx, call)
	cancel()
	<-renewed
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer stop()
	for {
		ok, err := r.o.Calls.Finish(last, call.ID, r.holder, state, end)
		if err == nil {
			r.o.Log.Info("a planned call has ended", "id", call.ID, "tool", call.Tool, "state", state, "recorded", ok)
			return
		}
		select {
		case <-last.Done():
			r.o.Log.Error("the end of a planned call is not recorded; it counts as lost", "id", call.ID, "state", state, "err", err)
			return
		case <-time.After(storePause):
		}
	}
}

// make makes a call with the rights that its owner has now.
func (r *Runner) make(ctx context.Context, call *store.Schedule) (state string, end store.ScheduleEnd) {
	defer func() {
		if p := recover(); p != nil {
			r.o.Log.Error("panic in a planned call", "id", call.ID, "panic", p, "stack", string(debug.Stack()))
			state, end = store.ScheduleFailed, store.ScheduleEnd{Result: []byte("The gateway failed during the call.")}
		}
	}()
	present := func() (*gate.Identity, bool) { return r.o.Present(call.Principal, call.Credential) }
	if _, ok := present(); !ok {
		return store.ScheduleRefused, store.ScheduleEnd{Result: []byte("The credential by which the call was planned is not accepted any more.")}
	}
	return r.o.Make(ctx, present, call)
}

// renew extends the lease of a call until ctx ends. The returned channel is closed then.
func (r *Runner) renew(ctx context.Context, id string) <-chan struct{} {
	ended := make(chan struct{})
	go func() { // ends with ctx, which has a deadline
		defer close(ended)
		tick := time.NewTicker(r.o.Lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := r.o.Calls.Renew(ctx, id, r.holder, time.Now().Add(r.o.Lease)); err != nil && ctx.Err() == nil {
					r.o.Log.Warn("the lease of a planned call is not renewed", "id", id, "err", err)
				}
			}
		}
	}()
	return ended
}

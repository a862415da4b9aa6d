package agents

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/store/runs"
	"github.com/toolgate/toolgate/native/agents"
)

const (
	// look is how often the store is asked for runs to take over when nothing is known of
	// any: another gateway may have died.
	look = 30 * time.Second
	// pruneEvery is how often old runs are removed.
	pruneEvery = time.Hour
)

// Changed reports that the runs in the store have changed.
func (h *Host) Changed() {
	select {
	case h.changed <- struct{}{}:
	default: // the pending token covers this change, too
	}
}

// Run takes over runs until claims ends. It keeps the claims of this gateway until calls
// ends, and then gives up those that are left, for other gateways.
func (h *Host) Run(claims, calls context.Context) error {
	defer h.taken.Wait()
	defer h.leave()
	h.mu.Lock()
	h.calls = calls
	h.mu.Unlock()
	places := newPlaces()
	beat := time.NewTicker(h.o.Lease / 3)
	defer beat.Stop()
	var looked, pruned time.Time
	for {
		now := time.Now()
		if h.busy() {
			h.renew(calls)
		}
		if now.Sub(looked) >= look || h.o.Lease < lease {
			looked = now
		}
		if looked.Equal(now) && claims.Err() == nil && len(h.o.Agents()) > 0 {
			h.takeOver(claims, calls, places)
			if now.Sub(pruned) >= pruneEvery {
				pruned = now
				if err := h.o.Runs.Prune(calls); err != nil && calls.Err() == nil {
					h.o.Log.Warn("old runs are not removed", "err", err)
				}
			}
		}
		select {
		case <-calls.Done():
			return nil
		case <-claims.Done():
			h.end()
			if !h.busy() {
				return nil
			}
			select { // claims stays ended
			case <-calls.Done():
				return nil
			case <-h.changed: // somebody may have cancelled a run
			case <-beat.C:
			}
		case <-h.changed:
			looked = time.Time{}
		case <-beat.C:
		}
	}
}

// end notes that the gateway ends: whoever loses its call now finds its run later.
func (h *Host) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ending = true
}

// leave gives up the work on all runs, and waits until what has become of them is recorded.
func (h *Host) leave() {
	h.mu.Lock()
	h.ending, h.idle = true, make(chan struct{})
	for _, cancel := range h.active {
		cancel(agents.ErrLeft)
	}
	idle := h.idle
	h.signalIdle()
	h.mu.Unlock()
	late := time.NewTimer(storeTime)
	defer late.Stop()
	select {
	case <-idle:
	case <-late.C:
	}
}

func (h *Host) busy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.active) > 0
}

// working returns the ids of the runs that this gateway works on.
func (h *Host) working() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.active))
}

// renew extends the claims of this gateway, and ends runs that were cancelled elsewhere.
func (h *Host) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	cancelled, err := h.o.Runs.Renew(ctx, h.holder, time.Now().Add(h.o.Lease), h.working())
	if err != nil && ctx.Err() == nil {
		h.o.Log.Warn("the leases of runs are not renewed", "err", err)
	}
	for _, id := range cancelled {
		h.stop(id)
	}
}

// takeOver claims runs that nobody works on any more, and goes on with them.
func (h *Host) takeOver(claims, calls context.Context, places *places) {
	has := slices.Collect(maps.Keys(h.o.Agents()))
	for {
		own := places.take()
		if own == nil {
			return
		}
		ctx, cancel := context.WithTimeout(claims, storeTime)
		run, ok, err := h.o.Runs.Claim(ctx, h.holder, time.Now().Add(h.o.Lease), has, h.working()...)
		cancel()
		if err != nil || !ok {
			own.leave()
			if err != nil && claims.Err() == nil {
				h.o.Log.Warn("runs of agents cannot be taken over; they wait", "err", err)
			}
			return
		}
		h.taken.Go(func() {
			defer h.Changed() // there may be more of them
			defer own.leave()
			own.freed = h.Changed // whoever waits for a place gets it
			h.resume(calls, &run, slices.Contains(has, run.Agent), own)
		})
	}
}

// resume goes on with a run whose gateway has died. Nobody waits for it. had tells that this
// gateway had its agent when it claimed the run.
func (h *Host) resume(ctx context.Context, run *runs.Run, had bool, own *place) {
	defer func() {
		if p := recover(); p != nil {
			h.o.Log.Error("panic in a run of an agent", "run", run.ID, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	h.o.Log.Info("a run of an agent goes on", "run", run.ID, "agent", run.Agent)
	end := func(status agents.Status, reason string) {
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
		defer stop()
		h.finish(last, run, &agents.Outcome{Run: run.ID, Agent: run.Agent, Status: status, Reason: reason})
	}
	settings, ok := h.o.Agents()[run.Agent]
	switch {
	case run.Cancel:
		end(agents.Cancelled, "Somebody has cancelled it.")
		return
	case !ok && had: // another gateway may have it
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
		defer stop()
		h.release(last, run.ID)
		return
	case !ok:
		end(agents.Failed, fmt.Sprintf("No gateway on this store has had the agent %s for %v.", run.Agent, runs.AgentTime))
		return
	}
	present := func() (*gate.Identity, bool) { return h.o.Present(run.Principal, run.Credential) }
	id, ok := present()
	if !ok {
		end(agents.Failed, "The credential by which the run was begun is not accepted any more.")
		return
	}
	w := &work{run: *run, settings: &settings, id: id, place: own, nested: h.o.Nested(present, run.Capsule)}
	if err := h.load(ctx, w); err != nil {
		h.o.Log.Error("a run of an agent cannot go on", "run", run.ID, "err", err)
		if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) { // another one may read it
			last, stop := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
			defer stop()
			h.release(last, run.ID)
			return
		}
		end(agents.Failed, "What is kept of the run cannot be read.")
		return
	}
	_, _ = h.work(ctx, w) // which records and logs the end
}

package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/references"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/headroom"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy/auth"
	"github.com/toolgate/toolgate/proxy/inflight"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

const (
	// StoreTime bounds one look at the store.
	StoreTime = 5 * time.Second
	// cancelTime bounds the cancelling of tasks at their servers.
	cancelTime = 30 * time.Second
	// storePause is how often the store is asked whether it answers.
	storePause = time.Second
)

// Calls are those of the gateway, as far as a mode bears on them.
type Calls interface {
	Throttle(t limit.Throttle)
	CancelCalls(cancel func(*inflight.Call) *refusal.Error) int
	CancelTasks(ctx context.Context, cancel func(*inflight.Call) *refusal.Error) int
}

// Options are what the operation of a gateway needs of it. All of it is needed
// but First.
type Options struct {
	Log   *slog.Logger
	State *statedir.Dir
	Calls Calls
	// First is the mode of the very first start; empty is NORMAL.
	First governance.Mode
	// There are the targets of the gateway; nil while a server is not heard of.
	There func(ctx context.Context) *references.Targets
	// Scopes are the rules for scopes in force; nil is none.
	Scopes func() *auth.Scopes
	// Record writes a change of the mode into the audit log.
	Record func(e *audit.Entry) error
	// Shown is told of the mode in force.
	Shown func(mode string)
	// Scarce is told whether memory runs short.
	Scarce func(short bool)
	// StoreCame is told when a store has come that was not there at the start.
	StoreCame func()
}

// Operation is what a gateway keeps over reloads besides its servers: the
// operating mode, the connection to SpiceDB, the prepared schemas, and whether
// it can decide at all.
type Operation struct {
	Options
	modes     *store.Modes
	Relations build.RelationsKeeper
	Schemas   *schema.Checker

	changed   chan struct{}                    // capacity 1: a mode was set in the store
	locked    chan struct{}                    // capacity 1: LOCKDOWN is in force, which tasks at servers end for
	setting   sync.Mutex                       // one change of the mode at a time
	Mode      atomic.Pointer[store.ModeRecord] // that of the store
	Headroom  headroom.Watcher
	short     atomic.Pointer[shortage]        // nil while there is enough of everything; see shortage.go
	Examiner  atomic.Pointer[build.Examiner]  // of the configuration in force
	watch     atomic.Pointer[build.RuleWatch] // of its rules
	policy    atomic.Pointer[opa.Phase]       // of it; nil when none is configured
	storeDown atomic.Pointer[error]           // why the store does not answer; nil while it does
}

// New reads the mode in force. Without a store that could tell it there
// is none.
func New(ctx context.Context, options Options, modes *store.Modes) (*Operation, error) {
	o := &Operation{
		Options: options, modes: modes, Schemas: schema.New(schema.Options{}),
		changed: make(chan struct{}, 1), locked: make(chan struct{}, 1),
	}
	o.Headroom.Logger = o.Log
	o.Examiner.Store(&build.Examiner{Said: func(string, string) (none governance.Operator) { return none }}) // whose rules deny
	o.Mode.Store(&store.ModeRecord{})                                                                        // which denies every call
	err := o.begin(ctx)
	if errors.Is(err, store.ErrUnreached) {
		o.storeDown.Store(&err)
		err = nil
	}
	return o, err
}

// begin reads the mode to begin with: the store's, and at the very first start
// that of the configuration.
func (o *Operation) begin(ctx context.Context) error {
	record, kept, err := o.modes.Current(ctx)
	if err != nil {
		return fmt.Errorf("read the operating mode: %w", err)
	}
	if wanted := o.First; !kept && wanted != "" {
		by := store.Change{Actor: "configuration", Reason: "the mode of the first start"}
		if _, err := o.modes.SetIf(ctx, "", string(wanted), by); err != nil {
			return err
		}
		if record, kept, err = o.modes.Current(ctx); err != nil {
			return fmt.Errorf("read the operating mode: %w", err)
		}
	}
	if !kept {
		record.Mode = string(governance.Normal)
	}
	o.Mode.Store(&record)
	return nil
}

// Now is the mode in force.
func (o *Operation) Now() governance.Mode { return governance.Mode(o.inForce().Mode) }

// Use takes over the gate of a configuration that is about to be applied, and
// returns who is told of the names that there are.
func (o *Operation) Use(c *config.Config, g *build.Gates) (listed func([]string)) {
	o.Headroom.Use(Room(c, o.State))
	o.Examiner.Store(g.Examiner)
	o.policy.Store(g.Policy)
	watch := &build.RuleWatch{Look: o.nameless(c, g), Wake: make(chan struct{}, 1)}
	o.watch.Store(watch)
	g.Keepers = append(g.Keepers, build.KeepingUpTo{What: "governance", Run: func(ctx context.Context) error {
		watch.Run(ctx, func(p governance.Problem) { o.Log.Warn("a rule cannot be meant so", "rule", build.ProblemText(p)) })
		return nil
	}})
	return func(names []string) {
		if g.Policy != nil {
			g.Listed(names)
		}
		watch.Changed()
	}
}

// nameless returns what finds the names in a configuration that match nothing
// that there is.
func (o *Operation) nameless(c *config.Config, g *build.Gates) func(context.Context) ([]governance.Problem, bool) {
	return func(ctx context.Context) ([]governance.Problem, bool) {
		targets := o.There(ctx)
		if targets.Empty() {
			return nil, false
		}
		return references.By(c, g, o.Scopes()).Dangling(targets), true
	}
}

// LookAgain has the names in the configuration looked at again.
func (o *Operation) LookAgain() {
	if watch := o.watch.Load(); watch != nil {
		watch.Changed()
	}
}

// Run looks whether the store answers, and takes over the mode that others set
// in it, until the context ends. Then the connection to SpiceDB is closed.
func (o *Operation) Run(ctx context.Context) error {
	defer o.Relations.End()
	o.act(o.Now())
	var probing sync.WaitGroup
	defer probing.Wait()
	probing.Go(func() { o.probe(ctx) })
	probing.Go(func() { o.endTasks(ctx) })
	probing.Go(func() { _ = o.Headroom.Run(ctx, o.runsShort) }) // which has no other end than the context's
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.changed:
		}
		if err := o.refresh(ctx); err != nil && ctx.Err() == nil {
			o.Log.Error("the operating mode cannot be read; the one before stays in force", "err", err)
		}
	}
}

// ModeChanged takes the news that a mode was set in the store.
func (o *Operation) ModeChanged() { wake(o.changed) }

// wake leaves a token unless one is there.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// probe asks the store in intervals whether it answers.
func (o *Operation) probe(ctx context.Context) {
	tick := time.NewTicker(storePause)
	defer tick.Stop()
	for {
		err := o.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			o.storeDown.Store(&err)
		default:
			o.storeDown.Store(nil)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ask asks the store whether it answers, and for the mode to begin with where it
// was not there at the start.
func (o *Operation) ask(ctx context.Context) error {
	if o.Mode.Load().Mode == "" {
		return o.refresh(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, StoreTime)
	defer cancel()
	_, _, err := o.modes.Current(ctx)
	return err
}

// refresh puts the mode of the store in force.
func (o *Operation) refresh(ctx context.Context) error {
	o.setting.Lock()
	defer o.setting.Unlock()
	ctx, cancel := context.WithTimeout(ctx, StoreTime)
	defer cancel()
	if o.Mode.Load().Mode == "" { // the store was not there at the start
		if err := o.begin(ctx); err != nil {
			return err
		}
		if s := o.short.Load(); s != nil { // it began when nothing was known of what people set
			o.short.Store(&shortage{record: s.record, under: o.Mode.Load()})
		}
		o.act(o.Now())
		o.StoreCame()
		return nil
	}
	record, kept, err := o.modes.Current(ctx)
	if err != nil || !kept {
		return err
	}
	if before := o.Mode.Load(); before.Mode != record.Mode || !before.At.Equal(record.At) {
		o.change(record.Change, func() { o.Mode.Store(&record) })
	}
	return nil
}

// act does what a mode demands of calls that are under way already. The mode is
// in force by then, so that none slips through between.
func (o *Operation) act(mode governance.Mode) {
	o.Shown(string(mode))
	o.Calls.Throttle(limit.Throttle{Halve: mode == governance.Recovery, NoQueue: mode == governance.Degraded})
	examiner := o.Examiner.Load()
	n := o.Calls.CancelCalls(func(call *inflight.Call) *refusal.Error { return examiner.Cancelled(call, mode) })
	if n > 0 {
		o.Log.Warn("calls cancelled by the operating mode", "mode", mode, "calls", n)
	}
	if mode == governance.Lockdown {
		wake(o.locked)
	}
}

// endTasks ends the tasks at servers that LOCKDOWN does not allow, whenever it comes
// into force, until the context ends.
func (o *Operation) endTasks(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.locked:
		}
		examiner := o.Examiner.Load()
		ending, cancel := context.WithTimeout(ctx, cancelTime)
		n := o.Calls.CancelTasks(ending, func(call *inflight.Call) *refusal.Error { return examiner.Cancelled(call, governance.Lockdown) })
		cancel()
		if n > 0 {
			o.Log.Warn("tasks cancelled at their servers by the operating mode", "mode", governance.Lockdown, "tasks", n)
		}
	}
}

// missing is one word for what the gateway needs to decide and does not have.
func (o *Operation) missing() string {
	if o.storeDown.Load() != nil {
		return "store"
	}
	if s := o.Relations.Status(); s != nil && !s.OK {
		return "spicedb"
	}
	return ""
}

// Status adds the mode, and what is missing or wrong, with what is wrong besides.
func (o *Operation) Status(out *admin.Status, besides ...string) {
	if mode := shownMode(o.inForce()); mode.Mode != "" {
		out.Mode = &mode
	}
	out.NotReady = o.missing()
	switch out.NotReady {
	case "store":
		if err := o.storeDown.Load(); err != nil {
			out.Detail = (*err).Error()
		}
	case "spicedb":
		if s := o.Relations.Status(); s != nil {
			out.Detail = s.Detail
		}
	}
	if watch := o.watch.Load(); watch != nil {
		out.Alarms = append(watch.Problems(), slices.DeleteFunc(besides, func(alarm string) bool { return alarm == "" })...)
	}
	if policy := o.policy.Load(); policy != nil {
		for _, f := range policy.Failures() {
			out.PolicyFailures = append(out.PolicyFailures, admin.PolicyFailure{Name: f.Name, What: f.String()})
			out.Alarms = append(out.Alarms, f.String())
		}
	}
	if e := o.Examiner.Load(); e != nil {
		out.Misfits = e.Misfits()
		out.Alarms = append(out.Alarms, out.Misfits...)
	}
	if text := o.overruled(); text != "" {
		out.Alarms = append(out.Alarms, text)
	}
}

func shownMode(r *store.ModeRecord) admin.Mode {
	m := admin.Mode{Mode: r.Mode, Actor: r.Actor, Reason: r.Reason}
	if !r.At.IsZero() {
		m.Since = &r.At
	}
	return m
}

// Mode implements [admin.ModeKeeper].
func (m Modes) Mode(context.Context) (admin.Mode, error) {
	if err := m.o.storeDown.Load(); err != nil && m.o.Now() == "" {
		return admin.Mode{}, fmt.Errorf("the operating mode is not known, and nothing is called: %w", *err)
	}
	return shownMode(m.o.inForce()), nil
}

// SetMode implements [admin.ModeKeeper].
func (m Modes) SetMode(ctx context.Context, text, reason string) (admin.Mode, error) {
	return m.Set(ctx, text, store.Change{Actor: admin.Operator(), Reason: reason})
}

// Set sets the mode of all gateways that share the store, in somebody's name.
func (m Modes) Set(ctx context.Context, text string, by store.Change) (admin.Mode, error) {
	mode, err := governance.ParseMode(text)
	switch {
	case err != nil:
		return admin.Mode{}, failure.New(failure.Usage, err)
	case by.Reason == "":
		return admin.Mode{}, failure.Newf(failure.Usage, "a mode is set with a reason; add --reason TEXT, which is kept with it")
	}
	ctx, cancel := context.WithTimeout(ctx, StoreTime)
	defer cancel()
	if err := m.o.modes.Set(ctx, string(mode), by); err != nil {
		return admin.Mode{}, err
	}
	if err := m.o.refresh(ctx); err != nil {
		return admin.Mode{}, err
	}
	return m.Mode(ctx)
}

// Modes are the operating mode as it is asked for and set.
type Modes struct{ o *Operation }

// Modes returns who asks for the mode and sets it.
func (o *Operation) Modes() Modes { return Modes{o} }

var _ admin.ModeKeeper = Modes{}

// StoreDown is why the store does not answer; nil while it does.
func (o *Operation) StoreDown() error {
	if err := o.storeDown.Load(); err != nil {
		return *err
	}
	return nil
}

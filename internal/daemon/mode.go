package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/references"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/headroom"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/refusal"
)

const (
	// storeTime bounds one look at the store.
	storeTime = 5 * time.Second
	// cancelTime bounds the cancelling of tasks at their servers.
	cancelTime = 30 * time.Second
	// storePause is how often the store is asked whether it answers.
	storePause = time.Second
)

// operation is what a gateway keeps over reloads besides its servers: the
// operating mode, the connection to SpiceDB, the prepared schemas, and whether
// it can decide at all.
type operation struct {
	in        *Daemon
	modes     *store.Modes
	Relations build.RelationsKeeper
	schemas   *schema.Checker

	changed   chan struct{}                    // capacity 1: a mode was set in the store
	setting   sync.Mutex                       // one change of the mode at a time
	Mode      atomic.Pointer[store.ModeRecord] // that of the store
	Headroom  headroom.Watcher
	short     atomic.Pointer[shortage]        // nil while there is enough of everything; see shortage.go
	Examiner  atomic.Pointer[build.Examiner]  // of the configuration in force
	watch     atomic.Pointer[build.RuleWatch] // of its rules
	policy    atomic.Pointer[opa.Phase]       // of it; nil when none is configured
	storeDown atomic.Pointer[error]           // why the store does not answer; nil while it does
}

// newOperation reads the mode in force. Without a store that could tell it there
// is none.
func newOperation(ctx context.Context, in *Daemon) (*operation, error) {
	o := &operation{in: in, modes: in.Store.Modes(), schemas: schema.New(schema.Options{}), changed: make(chan struct{}, 1)}
	o.Headroom.Logger = in.Log
	o.Examiner.Store(&build.Examiner{Said: func(string, string) (none governance.Operator) { return none }}) // whose rules deny
	o.Mode.Store(&store.ModeRecord{})                                                                        // which denies every call
	err := o.begin(ctx)
	if errors.Is(err, store.ErrAway) {
		o.storeDown.Store(&err)
		err = nil
	}
	return o, err
}

// begin reads the mode to begin with: the store's, and at the very first start
// that of the configuration.
func (o *operation) begin(ctx context.Context) error {
	record, kept, err := o.modes.Current(ctx)
	if err != nil {
		return fmt.Errorf("read the operating mode: %w", err)
	}
	if wanted := o.in.begun.Governance.Mode; !kept && wanted != "" {
		by := store.Change{Actor: "configuration", Reason: "the mode of the first start"}
		if _, err := o.modes.SetIf(ctx, "", wanted, by); err != nil {
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
func (o *operation) Now() governance.Mode { return governance.Mode(o.inForce().Mode) }

// use takes over the gate of a configuration that is about to be applied, and
// returns who is told of the names that there are.
func (o *operation) use(c *config.Config, g *build.Gates) (listed func([]string)) {
	o.Headroom.Use(Room(c, o.in.State))
	o.Examiner.Store(g.Examiner)
	o.policy.Store(g.Policy)
	watch := &build.RuleWatch{Look: o.nameless(c, g), Wake: make(chan struct{}, 1)}
	o.watch.Store(watch)
	g.Keepers = append(g.Keepers, build.KeepingUpTo{What: "governance", Run: func(ctx context.Context) error {
		watch.Run(ctx, func(p governance.Problem) { o.in.Log.Warn("a rule cannot be meant so", "rule", build.ProblemText(p)) })
		return nil
	}})
	return func(names []string) {
		if g.Policy != nil {
			g.Listed(names)
		}
		watch.Changed()
	}
}

// nameless returns what finds the names in a configuration that are about nothing
// that there is.
func (o *operation) nameless(c *config.Config, g *build.Gates) func(context.Context) ([]governance.Problem, bool) {
	return func(ctx context.Context) ([]governance.Problem, bool) {
		inv := o.in.offered(ctx)
		if inv.Empty() {
			return nil, false
		}
		return references.By(c, g, o.in.Identities.InForce().Scopes).Dangling(inv), true
	}
}

// lookAgain has the names in the configuration looked at again.
func (o *operation) lookAgain() {
	if watch := o.watch.Load(); watch != nil {
		watch.Changed()
	}
}

// run looks whether the store answers, and takes over the mode that others set
// in it, until the context ends. Then the connection to SpiceDB is closed.
func (o *operation) run(ctx context.Context) error {
	defer o.Relations.End()
	o.act(o.Now())
	var probing sync.WaitGroup
	defer probing.Wait()
	probing.Go(func() { o.probe(ctx) })
	probing.Go(func() { _ = o.Headroom.Run(ctx, o.runsShort) }) // which has no other end than the context's
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.changed:
		}
		if err := o.refresh(ctx); err != nil && ctx.Err() == nil {
			o.in.Log.Error("the operating mode cannot be read; the one before stays in force", "err", err)
		}
	}
}

// stored takes the news that a mode was set in the store.
func (o *operation) stored() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// probe asks the store in intervals whether it answers.
func (o *operation) probe(ctx context.Context) {
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
func (o *operation) ask(ctx context.Context) error {
	if o.Mode.Load().Mode == "" {
		return o.refresh(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	_, _, err := o.modes.Current(ctx)
	return err
}

// refresh puts the mode of the store in force.
func (o *operation) refresh(ctx context.Context) error {
	o.setting.Lock()
	defer o.setting.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if o.Mode.Load().Mode == "" { // the store was not there at the start
		if err := o.begin(ctx); err != nil {
			return err
		}
		if s := o.short.Load(); s != nil { // it began when nothing was known of what people set
			o.short.Store(&shortage{record: s.record, under: o.Mode.Load()})
		}
		o.act(o.Now())
		o.in.saver.signal() // for what could not be saved meanwhile
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
func (o *operation) act(mode governance.Mode) {
	o.in.Metrics.Mode(string(mode))
	o.in.Gateway.Throttle(proxy.Throttle{Halve: mode == governance.Recovery, NoQueue: mode == governance.Degraded})
	examiner := o.Examiner.Load()
	n := o.in.Gateway.CancelCalls(func(call *proxy.RunningCall) *refusal.Error { return examiner.Cancelled(call, mode) })
	if n > 0 {
		o.in.Log.Warn("calls cancelled by the operating mode", "mode", mode, "calls", n)
	}
	if mode != governance.Lockdown {
		return
	}
	o.in.Running.Go(func() { // ends with its deadline
		ctx, cancel := context.WithTimeout(o.in.ctxOrBackground(), cancelTime)
		defer cancel()
		n := o.in.Gateway.CancelTasks(ctx, func(call *proxy.RunningCall) *refusal.Error { return examiner.Cancelled(call, mode) })
		if n > 0 {
			o.in.Log.Warn("tasks cancelled at their servers by the operating mode", "mode", mode, "tasks", n)
		}
	})
}

// missing is one word for what the gateway needs to decide and does not have.
func (o *operation) missing() string {
	if o.storeDown.Load() != nil {
		return "store"
	}
	if s := o.Relations.Status(); s != nil && !s.OK {
		return "spicedb"
	}
	return ""
}

// status adds the mode, and what is missing or wrong.
func (o *operation) status(out *admin.Status) {
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
		out.Alarms = append(watch.Problems(), o.in.lost.problems()...)
		if stricter := o.in.registry.Stricter(); stricter != "" {
			out.Alarms = append(out.Alarms, stricter)
		}
	}
	if policy := o.policy.Load(); policy != nil {
		for _, f := range policy.Failures() {
			out.PolicyFailures = append(out.PolicyFailures, admin.PolicyFailure{Name: f.Name, What: f.String()})
			out.Alarms = append(out.Alarms, f.String())
		}
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
func (in *Daemon) Mode(context.Context) (admin.Mode, error) {
	if err := in.Operation.storeDown.Load(); err != nil && in.Operation.Now() == "" {
		return admin.Mode{}, fmt.Errorf("the operating mode is not known, and nothing is called: %w", *err)
	}
	return shownMode(in.Operation.inForce()), nil
}

// SetMode implements [admin.ModeKeeper].
func (in *Daemon) SetMode(ctx context.Context, text, reason string) (admin.Mode, error) {
	return in.setMode(ctx, text, store.Change{Actor: Operator(), Reason: reason})
}

func (in *Daemon) setMode(ctx context.Context, text string, by store.Change) (admin.Mode, error) {
	mode, err := governance.ParseMode(text)
	switch {
	case err != nil:
		return admin.Mode{}, failure.New(failure.Usage, err)
	case by.Reason == "":
		return admin.Mode{}, failure.Newf(failure.Usage, "a mode is set with a reason; add --reason TEXT, which is kept with it")
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err := in.Operation.modes.Set(ctx, string(mode), by); err != nil {
		return admin.Mode{}, err
	}
	if err := in.Operation.refresh(ctx); err != nil {
		return admin.Mode{}, err
	}
	return in.Mode(ctx)
}

// Operator names who uses the control socket: it takes the gateway's own user
// alone.
func Operator() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "user " + u.Username
	}
	return "user " + strconv.Itoa(os.Getuid())
}

// Capabilities implements [admin.CatalogLister].
func (in *Daemon) Capabilities(ctx context.Context) ([]admin.Capability, error) {
	in.Gateway.Settle(ctx)
	all := []admin.Capability{}
	for _, c := range in.Gateway.Capabilities() {
		all = append(all, admin.Capability{
			Kind: c.Kind.String(), Name: c.Exposed, Plain: c.Plain, Server: c.Server, Original: c.Original, CapabilityID: c.CapabilityID, Schema: c.Schema,
		})
	}
	return all, nil
}

// ctxOrBackground is the context of run, or of nothing before it.
func (in *Daemon) ctxOrBackground() context.Context {
	if in.ctx != nil {
		return in.ctx
	}
	return context.Background()
}

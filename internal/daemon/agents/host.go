package agents

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/background"
	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store/runs"
	"github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/inside"
	"github.com/toolgate/toolgate/native/toolapi"
)

// Store keeps runs, as [runs.Runs] does.
type Store interface {
	Add(ctx context.Context, run runs.Run, holder string, lease time.Time) (runs.Run, error)
	Get(ctx context.Context, owner, id string) (runs.Run, bool, error)
	List(ctx context.Context, f runs.Filter) ([]runs.Run, error)
	Steps(ctx context.Context, id string) ([]runs.Step, error)
	Save(ctx context.Context, id, holder string, steps ...runs.Step) (cancelled bool, err error)
	Finish(ctx context.Context, id, holder string, state runs.State, result []byte) error
	Release(ctx context.Context, id, holder string) error
	Renew(ctx context.Context, holder string, lease time.Time, ids []string) (cancelled []string, err error)
	Claim(ctx context.Context, holder string, lease time.Time, agents []string, but ...string) (runs.Run, bool, error)
	Take(ctx context.Context, owner, id, holder string, lease time.Time, in ...runs.State) (runs.Run, bool, error)
	Cancel(ctx context.Context, owner, id string) (bool, error)
	Prune(ctx context.Context) error
}

// Options are what a [Host] needs. All of it but Lease is required.
type Options struct {
	Log  *slog.Logger
	Runs Store
	Keys *seal.Keyring
	// Agents returns the agents of the configuration in force.
	Agents func() map[string]agents.Settings
	// Model returns the client of an agent's endpoint.
	Model func(name string, s *agents.Settings) (model.Model, error)
	// Nested returns what makes calls for a caller that is not there.
	Nested func(present func() (*gate.Identity, bool), capsule string) mcp.NestedCaller
	// Present returns a principal with the rights that it has now; false when it is not
	// known any more by the credential that it had. Lasts tells whether that can be asked
	// at any time.
	Present func(principal, credential string) (*gate.Identity, bool)
	Lasts   func(id *gate.Identity) bool
	// May returns why a caller may not call the tool of an agent, in a sentence; empty where it
	// may. It is asked where the agent is named to the tool that runs any of them, and before
	// each turn of a run whose caller is not there. The call of the latter has begun: who
	// approves it, its rate and its budget do not count again. args are the arguments of the
	// tool. The error says that nobody can decide it at the moment. nil allows all.
	May func(ctx context.Context, id *gate.Identity, capsule, agent string, args []byte, begun bool) (why string, err error)
	// Budget returns what the inferences of an agent for a caller are charged to; nil
	// charges nothing.
	Budget func(id *gate.Identity, agent string) agents.Budget
	// Ended tells whether the cause of the end of a call is the end of its gateway. A run
	// whose call ends otherwise is cancelled. nil knows no such cause.
	Ended func(cause error) bool
	// Lease is how long a claim stands that is not renewed; 30 s when zero.
	Lease time.Duration
}

const (
	// lease is how long a claim stands that is not renewed.
	lease = 30 * time.Second
	// storeTime bounds one request to the store.
	storeTime = 10 * time.Second
)

// Host runs agents. Make it with [New]; it takes over no runs before [Host.Run]. It is
// safe for concurrent use.
type Host struct {
	o       Options
	holder  string
	changed chan struct{} // capacity 1: there may be something to do
	taken   sync.WaitGroup

	mu     sync.Mutex
	active map[string]context.CancelCauseFunc // runs that this gateway works on
	ending bool                               // what begins now is gone on with later
	calls  context.Context                    //nolint:containedctx // of Run: once it has ended, calls end with the gateway; nil before
	idle   chan struct{}                      // closed when nothing is worked on any more; nil while nobody waits
}

var _ agents.Host = (*Host)(nil)

// New returns a host. Its claims are told from those of every other.
func New(o Options) *Host {
	if o.Lease == 0 {
		o.Lease = lease
	}
	return &Host{o: o, holder: rand.Text(), changed: make(chan struct{}, 1), active: map[string]context.CancelCauseFunc{}}
}

// Active returns how many runs this gateway works on.
func (h *Host) Active() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.active)
}

var errNoCaller = errors.New("the call has no caller")

// byAgents is between the key of a caller and what names the agents that call for it.
const byAgents = "\x00"

// owner is whose run it is: a caller, or an agent for a caller, which is not the same.
func owner(id *gate.Identity) string {
	if len(id.Agents)+len(id.Capsules) == 0 {
		return id.Key()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", id.Agents, id.Capsules))
	return id.Key() + byAgents + hex.EncodeToString(sum[:])
}

// Start implements [agents.Host].
func (h *Host) Start(ctx context.Context, call *toolapi.Call, agent string, t *agents.Task) (*agents.Outcome, error) {
	var w *work
	if err := background.Apart(func() (err error) { w, err = h.add(ctx, call, agent, t); return err }); err != nil {
		return nil, err
	}
	return h.work(ctx, w)
}

// add adds a run, which this gateway has claimed.
func (h *Host) add(ctx context.Context, call *toolapi.Call, agent string, t *agents.Task) (*work, error) {
	id, capsule := gate.CallerOf(ctx)
	if id == nil {
		return nil, errNoCaller
	}
	settings, ok := h.o.Agents()[agent]
	switch {
	case !ok:
		return nil, toolapi.Problemf("There is no agent %.60q.", agent)
	case slices.Contains(id.Agents, agent):
		return nil, toolapi.Problemf("The agent %s works on this already, further out, and waits for this call.", agent)
	}
	if by := inside.CallOf(ctx); by != nil && by.Key == agents.RunTool && h.o.May != nil {
		switch why, err := h.o.May(ctx, id, capsule, agent, t.Arguments(), false); {
		case err != nil:
			return nil, toolapi.Problemf("Nobody can decide at the moment whether you may call the agent %.60q. Try again later.", agent)
		case why != "":
			return nil, toolapi.Problem(why)
		}
	}
	run := runs.Run{
		Principal: owner(id), Credential: id.Credential, Lasting: len(id.Agents)+len(id.Capsules) == 0 && h.o.Lasts(id), Capsule: capsule, Agent: agent,
	}
	var err error
	if run.Request, err = h.sealed(requestOf(&run), kept{t, callerName(id)}); err != nil {
		return nil, err
	}
	run, err = h.o.Runs.Add(ctx, run, h.holder, time.Now().Add(h.o.Lease))
	switch {
	case errors.Is(err, runs.ErrTooMany):
		return nil, toolapi.Problemf("You have %d runs open, which is the most. Cancel one of them with run and cancel, or give those that wait their outputs.", runs.MaxOpen)
	case errors.Is(err, runs.ErrTooLarge):
		return nil, toolapi.Problemf("The task with everything that belongs to it is too large.")
	case err != nil:
		return nil, err
	}
	run.Request = nil // the store has it, and nobody else asks for it
	return &work{run: run, task: t, settings: &settings, id: id, call: call}, nil
}

// kept is what is kept of the beginning of a run.
type kept struct {
	*agents.Task
	Caller string `json:"caller"` // for people
}

// callerName names a caller, and the agents that call for it, for people.
func callerName(id *gate.Identity) string {
	name := id.Subject + " of " + id.Tenant
	for _, a := range id.Agents {
		name = "agent " + a + " for " + name
	}
	return name
}

// unknown is the problem with a run that the caller has not, whether others have it or
// not.
func unknown(run string) error {
	return toolapi.Problemf("You have no run %.40q.", run)
}

// ownRun returns the caller of a call and its run by an id, of an agent alone where that is
// named.
func (h *Host) ownRun(ctx context.Context, agent, id string) (who *gate.Identity, run runs.Run, err error) {
	if who, _ = gate.CallerOf(ctx); who == nil {
		return nil, runs.Run{}, errNoCaller
	}
	run, ok, err := h.o.Runs.Get(ctx, owner(who), id)
	if err == nil && (!ok || agent != "" && run.Agent != agent) {
		err = unknown(id)
	}
	return who, run, err
}

// GoOn implements [agents.Host].
func (h *Host) GoOn(ctx context.Context, call *toolapi.Call, agent, id string, outputs []agents.Output) (*agents.Outcome, error) {
	who, run, err := h.ownRun(ctx, agent, id)
	switch {
	case err != nil:
		return nil, err
	case len(outputs) > 0 && run.State != runs.Waiting:
		return nil, toolapi.Problemf("The run does not wait for outputs. Call again with run alone to see what has become of it.")
	case run.State == runs.Limit || run.State == runs.Interrupted || run.State == runs.Waiting && len(outputs) > 0:
	default:
		return h.known(&run)
	}
	settings, ok := h.o.Agents()[run.Agent]
	switch {
	case !ok:
		return nil, toolapi.Problemf("There is no agent %.60q any more.", run.Agent)
	case run.Lasting && run.Credential != who.Credential: // whoever goes on with it alone has the rights of that one
		return nil, toolapi.Problemf("The run was begun with another credential of yours. Go on with that one, or begin a new run.")
	case slices.Contains(h.working(), id): // though the store does not know of it any more
		return nil, toolapi.Problemf("The run goes on already. Call again with run alone to see what has become of it.")
	}
	w := &work{run: run, settings: &settings, id: who, call: call, more: true}
	if err := h.load(ctx, w); err != nil {
		return nil, err
	}
	var ends []agents.Step
	if run.State == runs.Waiting {
		if err := agents.CheckOutputs(w.steps, outputs); err != nil {
			return nil, err
		}
		if ends, err = agents.WithOutputs(w.steps, outputs); err != nil {
			return nil, err
		}
	}
	if w.run, ok, err = h.o.Runs.Take(ctx, owner(who), id, h.holder, time.Now().Add(h.o.Lease), run.State); err != nil {
		return nil, err
	}
	if !ok { // somebody was faster
		return nil, toolapi.Problemf("The run goes on already. Call again with run alone to see what has become of it.")
	}
	if len(ends) > 0 {
		if err := h.journal(&w.run).Save(ctx, ends...); err != nil && !errors.Is(err, agents.ErrCancelled) {
			last, stop := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
			defer stop()
			o := &agents.Outcome{Run: id, Agent: run.Agent, Status: agents.RequiresAction, Reason: "The outputs could not be kept. Give them again.", Required: agents.RequiredBy(w.steps)}
			h.finish(last, &w.run, o)
			return nil, err
		}
	}
	return h.work(ctx, w)
}

// Cancel implements [agents.Host].
func (h *Host) Cancel(ctx context.Context, agent, id string) (*agents.Outcome, error) {
	who, run, err := h.ownRun(ctx, agent, id)
	if err != nil {
		return nil, err
	}
	ok, err := h.CancelRun(ctx, owner(who), id)
	if err != nil {
		return nil, err
	}
	if !ok {
		return h.known(&run)
	}
	return &agents.Outcome{Run: id, Agent: run.Agent, Status: agents.Cancelled, Reason: "You have cancelled it."}, nil
}

// CancelRun cancels a run; of an owner alone where it is not empty. ok is false when there
// is none that could end.
func (h *Host) CancelRun(ctx context.Context, owner, id string) (ok bool, err error) {
	if ok, err = h.o.Runs.Cancel(ctx, owner, id); ok && err == nil {
		h.stop(id)
	}
	return ok, err
}

// stop ends the work on a run that was cancelled.
func (h *Host) stop(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cancel := h.active[id]; cancel != nil {
		cancel(agents.ErrCancelled)
	}
}

// known is what the store knows of a run that nobody has to go on with.
func (h *Host) known(run *runs.Run) (*agents.Outcome, error) {
	o := &agents.Outcome{Run: run.ID, Agent: run.Agent}
	if run.State == runs.Running {
		o.Status = agents.Running
		return o, nil
	}
	if len(run.Result) > 0 {
		if err := h.opened(resultOf(run), run.Result, o); err != nil {
			return nil, err
		}
	}
	if run.State == runs.Cancelled {
		o.Status, o.Limit, o.Required = agents.Cancelled, "", nil
	}
	return o, nil
}

// work is a run that this gateway works on.
type work struct {
	run      runs.Run
	task     *agents.Task
	settings *agents.Settings
	id       *gate.Identity
	call     *toolapi.Call // nil where nobody waits
	steps    []agents.Step
	more     bool
	place    *place           // among the runs that are taken over; nil where its caller waits
	nested   mcp.NestedCaller // nil for that of the call
}

// load reads what was asked of a run, and its steps.
func (h *Host) load(ctx context.Context, w *work) error {
	k := kept{Task: new(agents.Task)}
	w.task = k.Task
	if err := h.opened(requestOf(&w.run), w.run.Request, &k); err != nil {
		return err
	}
	steps, err := h.o.Runs.Steps(ctx, w.run.ID)
	if err != nil {
		return err
	}
	w.steps, err = h.stepsOf(&w.run, steps)
	return err
}

// work works on a run that this gateway has claimed, and records its end.
func (h *Host) work(caller context.Context, w *work) (*agents.Outcome, error) {
	ctx, end, done := h.enter(caller, w.run.ID)
	defer done()
	run, err := h.runOf(caller, w)
	var o *agents.Outcome
	if err == nil {
		run.Cancel = end
		o, err = run.Do(ctx)
	}
	last, stop := context.WithTimeout(context.WithoutCancel(caller), storeTime)
	defer stop()
	problem, told := errors.AsType[toolapi.Problem](err)
	switch {
	case err == nil:
	case errors.Is(err, agents.ErrLeft):
		h.release(last, w.run.ID)
		return &agents.Outcome{Run: w.run.ID, Agent: w.run.Agent, Status: agents.Running}, nil
	case errors.Is(err, agents.ErrLost):
		return &agents.Outcome{Run: w.run.ID, Agent: w.run.Agent, Status: agents.Running}, nil
	case told:
		o = &agents.Outcome{Run: w.run.ID, Agent: w.run.Agent, Status: agents.Failed, Reason: string(problem)}
	default:
		h.o.Log.Error("a run of an agent has failed", "run", w.run.ID, "agent", w.run.Agent, "err", err)
		o = &agents.Outcome{Run: w.run.ID, Agent: w.run.Agent, Status: agents.Failed, Reason: "The gateway failed during the run; its log says why."}
	}
	h.finish(last, &w.run, o)
	return o, nil
}

// release gives up the claim on a run.
func (h *Host) release(ctx context.Context, id string) {
	if err := h.o.Runs.Release(ctx, id, h.holder); err != nil {
		h.o.Log.Warn("a run is not released; it goes on when its lease ends", "run", id, "err", err)
	}
}

// states are those of the store for the ends of runs.
var states = map[agents.Status]runs.State{
	agents.Completed: runs.Completed, agents.Limited: runs.Limit, agents.Failed: runs.Failed, agents.Cancelled: runs.Cancelled, agents.RequiresAction: runs.Waiting,
}

// finish records the end of a run.
func (h *Host) finish(ctx context.Context, run *runs.Run, o *agents.Outcome) {
	result, err := h.sealed(resultOf(run), o)
	if err == nil && len(result) > runs.MaxResult {
		short := *o
		short.Text, short.Done = fmt.Sprintf("(%d bytes, too many to be kept)", len(o.Text)), nil
		result, err = h.sealed(resultOf(run), &short)
	}
	for pause := 50 * time.Millisecond; err == nil; pause *= 2 {
		if err = h.o.Runs.Finish(ctx, run.ID, h.holder, states[o.Status], result); err == nil {
			h.o.Log.Info("a run of an agent has ended", "run", run.ID, "agent", run.Agent, "status", string(o.Status), "limit", o.Limit, "turns", o.Turns)
			return
		}
		if errors.Is(err, runs.ErrLost) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			err = nil
		}
	}
	h.o.Log.Error("the end of a run is not recorded; it goes on when its lease ends", "run", run.ID, "err", err)
}

// enter returns the context of the work on a run, which ends with that of its caller.
func (h *Host) enter(caller context.Context, id string) (ctx context.Context, end context.CancelCauseFunc, done func()) {
	own := &struct {
		cancel.Context
		caller cancel.Watch
	}{}
	own.Begin(context.WithoutCancel(caller))
	h.mu.Lock()
	h.active[id] = own.Cancel
	if h.ending {
		own.Cancel(agents.ErrLeft)
	}
	h.mu.Unlock()
	own.caller.Over(caller, func() { own.Cancel(h.causeOf(caller)) })
	return &own.Context, own.Cancel, func() {
		own.caller.Stop()
		own.Cancel(nil)
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.active, id)
		h.signalIdle()
	}
}

// causeOf returns why a run ends with the call of its caller. What the gateway has ended goes
// on elsewhere. What the caller has cancelled does not, also while the gateway drains.
func (h *Host) causeOf(caller context.Context) error {
	h.mu.Lock()
	left := h.calls != nil && h.calls.Err() != nil
	h.mu.Unlock()
	cause := context.Cause(caller)
	if left || errors.Is(cause, agents.ErrLeft) || h.o.Ended != nil && h.o.Ended(cause) {
		return agents.ErrLeft
	}
	return cause
}

// signalIdle wakes whoever waits for the work on all runs to end; mu is held.
func (h *Host) signalIdle() {
	if h.idle == nil || len(h.active) > 0 {
		return
	}
	close(h.idle)
	h.idle = nil
}

// runOf makes the run of the work.
func (h *Host) runOf(caller context.Context, w *work) (*agents.Run, error) {
	m, err := h.o.Model(w.run.Agent, w.settings)
	if err != nil {
		return nil, toolapi.Problemf("The endpoint of the agent cannot be used: %s.", err)
	}
	r := &agents.Run{
		ID: w.run.ID, Agent: w.run.Agent, Settings: w.settings, Task: w.task, Model: m, Tools: w.nested, Journal: h.journal(&w.run),
		Budget: h.o.Budget(w.id, w.run.Agent), Log: h.o.Log, Steps: w.steps, More: w.more,
	}
	if w.call == nil {
		r.Allowed = func(ctx context.Context) error { return h.stillAllowed(ctx, w) }
		return r, nil
	}
	call := inside.CallOf(caller)
	if call == nil || call.Nested == nil {
		return nil, toolapi.Problemf("Agents call one another too deeply here.")
	}
	r.Tools, r.Ask, r.Allowed = call.Nested, agents.AskClient(call, w.run.ID), call.StillAllowed
	done := 0.0
	r.Progress = func(message string) {
		done++
		w.call.Progress(done, 0, message)
	}
	return r, nil
}

// errAbsent ends the runs of callers whose credential was revoked.
var errAbsent = errors.New("the credential of its caller is no longer accepted")

// undecidedTime is how long a run waits before somebody is asked again who could not decide
// whether it may go on.
const undecidedTime = 5 * time.Second

// stillAllowed reports whether a caller who is not there may still run its agent. It waits while
// nobody can decide that, at most as long as the run may take, and without the place of the run.
func (h *Host) stillAllowed(ctx context.Context, w *work) error {
	denied, undecided := h.decide(ctx, w)
	if undecided == nil {
		return denied
	}
	h.o.Log.Warn("a run of an agent waits: nobody can decide whether its caller may call it", "run", w.run.ID, "agent", w.run.Agent, "err", undecided)
	return w.place.idle(func() error {
		for {
			if err := backoff.Sleep(ctx, undecidedTime); err != nil {
				return err
			}
			if denied, undecided := h.decide(ctx, w); undecided == nil {
				return denied
			}
		}
	})
}

// decide asks once whether a caller who is not there may still run its agent. denied is why it
// may not, and undecided why nobody can say.
func (h *Host) decide(ctx context.Context, w *work) (denied, undecided error) {
	id, ok := h.o.Present(w.run.Principal, w.run.Credential)
	if !ok {
		return errAbsent, nil
	}
	if h.o.May == nil {
		return nil, nil
	}
	if _, ok := h.o.Agents()[w.run.Agent]; !ok {
		return agents.ErrLeft, nil // another gateway may have it
	}
	why, err := h.o.May(ctx, id, w.run.Capsule, w.run.Agent, w.task.Arguments(), true)
	switch {
	case err != nil:
		return nil, err
	case why != "":
		return errors.New(strings.TrimSuffix(why, ".")), nil
	}
	return nil, nil
}

// sealed writes a value as it is kept.
func (h *Host) sealed(with string, v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write what is kept of a run: %w", err)
	}
	return h.sealBytes(with, raw)
}

// purpose separates the seals of runs from all others.
const purpose = seal.Kept + "run of an agent"

func (h *Host) sealBytes(with string, raw []byte) ([]byte, error) {
	text, err := h.o.Keys.Seal(purpose, with, raw)
	if err != nil {
		return nil, fmt.Errorf("seal what is kept of a run: %w", err)
	}
	return []byte(text), nil
}

// errSealed means that a run was begun by a gateway with other keys, or is not what it was.
var errSealed = toolapi.Problemf("The run was not sealed with a key of this gateway. Set the same toolgate.keys on all gateways that share the store.")

func (h *Host) openBytes(with string, text []byte) ([]byte, error) {
	raw, err := h.o.Keys.Open(purpose, with, string(text))
	if err != nil {
		return nil, errSealed
	}
	return raw, nil
}

func (h *Host) opened(with string, text []byte, v any) error {
	raw, err := h.openBytes(with, text)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("read what is kept of a run: %w", err)
	}
	return nil
}

// requestOf is what the request of a run belongs to: no row can be made another caller's,
// or a run of another agent.
func requestOf(r *runs.Run) string {
	return fmt.Sprintf("request %q %q %t %q %q", r.Principal, r.Credential, r.Lasting, r.Capsule, r.Agent)
}

func resultOf(r *runs.Run) string { return fmt.Sprintf("result %q", r.ID) }

//go:build !windows

package agents_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/sqlstore"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/agents"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/runs"
	"github.com/toolgate/toolgate/internal/store/storetest"
	native "github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/agents/model"
	"github.com/toolgate/toolgate/native/inside"
	"github.com/toolgate/toolgate/native/toolapi"
)

// killedRuns is how many runs are killed at a random step, over each kind of store.
var killedRuns = flag.Int("killed", 6, "how many runs are killed at a random step, over each kind of store")

// postgres is the PostgreSQL server of the tests.
var postgres storetest.Server

// The variables of a process that runs an agent: the store, the file in which it writes
// what it does, how many stops come before the one at which it waits to be killed, and
// whether it begins a run.
const (
	storeVar, fileVar, stopVar, beginVar = "AGENTS_TEST_STORE", "AGENTS_TEST_FILE", "AGENTS_TEST_STOP", "AGENTS_TEST_BEGIN"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if at := os.Getenv(storeVar); at != "" {
		if err := gateway(at, os.Getenv(fileVar), os.Getenv(stopVar), os.Getenv(beginVar) != ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if err := postgres.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the PostgreSQL of the tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// gated is the runs of a store, with a stop before and after each change.
type gated struct {
	*runs.Runs
	at func(step string)
}

func (g gated) Save(ctx context.Context, id, holder string, steps ...runs.Step) (bool, error) {
	g.at("save")
	cancelled, err := g.Runs.Save(ctx, id, holder, steps...)
	g.at("saved")
	return cancelled, err
}

func (g gated) Finish(ctx context.Context, id, holder string, state runs.State, result []byte) error {
	g.at("finish")
	err := g.Runs.Finish(ctx, id, holder, state, result)
	g.at("finished")
	return err
}

func (g gated) Add(ctx context.Context, run runs.Run, holder string, lease time.Time) (runs.Run, error) {
	run, err := g.Runs.Add(ctx, run, holder, lease)
	g.at("added")
	return run, err
}

// charges is the budget, with a stop before and after each charge.
type charges struct {
	native.Budget
	at func(step string)
}

func (c charges) Reserve(ctx context.Context, r native.Reservation) error {
	c.at("reserve")
	err := c.Budget.Reserve(ctx, r)
	c.at("reserved")
	return err
}

func (c charges) Settle(ctx context.Context, r, used native.Reservation) error {
	c.at("settle")
	err := c.Budget.Settle(ctx, r, used)
	c.at("settled")
	return err
}

// conversation is a model that goes by what it is told: it reads and writes three times.
type conversation struct{ at func(step string) }

func (c conversation) Infer(_ context.Context, r *model.Request, _ func(model.Delta)) (*model.Turn, error) {
	c.at("infer")
	n := 0
	for i := range r.Messages {
		n += len(r.Messages[i].Results)
	}
	t := &model.Turn{Stop: model.StopCalls, Usage: model.Usage{Input: 100, Output: 10, Known: true}}
	if n == 2 {
		t.Usage.Input = 5000 // more than was reserved
	}
	if n >= 6 {
		t.Text, t.Stop = "done", model.StopEnd
	} else {
		t.Calls = []model.Call{{ID: "a", Tool: "read", Args: json.RawMessage(`{}`)}, {ID: "b", Tool: "write", Args: fmt.Appendf(nil, `{"n":%d}`, n)}}
	}
	c.at("inferred")
	return t, nil
}

// caller makes calls by writing a line.
type caller struct {
	at  func(step string)
	log io.Writer
}

func (c caller) Tools(context.Context, mcp.NestedAs) ([]mcp.NestedTool, error) {
	return []mcp.NestedTool{{Name: "read", ReadOnly: true}, {Name: "write"}}, nil
}

func (c caller) Call(_ context.Context, _ mcp.NestedAs, call mcp.NestedCall) mcp.NestedAnswer {
	c.at("call")
	fmt.Fprintln(c.log, call.Tool, string(call.Args))
	c.at("called")
	return mcp.NestedAnswer{CallID: "id", Delivered: true, Result: []byte(`{"content":[{"type":"text","text":"ok"}]}`)}
}

// alice is whose runs they are.
func alice() *gate.Identity {
	return gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "i", Subject: "alice"}, Credential: "key:alice"})
}

// options are how a store is opened.
func options(at string) store.Options {
	if strings.HasPrefix(at, "postgres:") {
		return store.Options{URL: at}
	}
	return store.Options{Path: at}
}

// limiter is a budget of tokens that is never used up.
func limiter(s *store.Store) (*budget.Limiter, error) {
	window, err := budget.ParseWindow("month")
	if err != nil {
		return nil, err
	}
	return budget.New(budget.Settings{
		Store: sqlstore.New(s, slog.New(slog.DiscardHandler)),
		Rules: []budget.Rule{{Name: "tokens", Per: budget.PerSubject, Unit: budget.Tokens, Limit: 1 << 40, Window: window, Zone: time.UTC}},
	})
}

// gateway runs an agent for alice, or goes on with her runs, until none is left.
func gateway(at, file, stop string, begin bool) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := store.Open(ctx, options(at))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	log, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	var mu sync.Mutex
	left := -1
	if stop != "" {
		if _, err := fmt.Sscan(stop, &left); err != nil {
			return err
		}
	}
	reach := func(string) {
		mu.Lock() // whoever comes after waits as well
		defer mu.Unlock()
		if left == 0 {
			fmt.Println("stopped")
			<-ctx.Done() // killed before
		}
		left--
	}
	keys, err := seal.NewKeyring(seal.Key{ID: "k", Secret: make([]byte, 32)})
	if err != nil {
		return err
	}
	limits, err := limiter(s)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { _ = s.Run(ctx) })
	h := agents.New(agents.Options{
		Log: slog.New(slog.DiscardHandler), Runs: gated{runs.New(s), reach}, Keys: keys, Lease: 300 * time.Millisecond,
		Agents: func() map[string]native.Settings {
			return map[string]native.Settings{"a": {Model: "m", MaxTurns: 20, Timeout: time.Minute, MaxTokens: 100, Context: 100_000}}
		},
		Model:   func(string, *native.Settings) (model.Model, error) { return conversation{reach}, nil },
		Nested:  func(func() (*gate.Identity, bool), string) mcp.NestedCaller { return caller{reach, log} },
		Present: func(string, string) (*gate.Identity, bool) { return alice(), true },
		Lasts:   func(*gate.Identity) bool { return true },
		Budget: func(id *gate.Identity, agent string) native.Budget {
			return charges{&agents.Charges{Limiter: func() *budget.Limiter { return limits }, Caller: id, Agent: agent}, reach}
		},
	})
	all.Go(func() { _ = h.Run(ctx, ctx) })
	if begin {
		called := inside.WithCall(gate.WithCaller(ctx, alice(), ""), &mcp.Call{Nested: caller{reach, log}})
		_, err := h.Start(called, &toolapi.Call{Progress: func(float64, float64, string) {}}, "a", &native.Task{Task: "go"})
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		list, err := runs.New(s).List(ctx, runs.Filter{State: runs.Running})
		if err != nil || len(list) == 0 {
			return err
		}
	}
	return nil
}

// process returns the test program as a gateway.
func process(t *testing.T, at, file, stop, begin string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(os.Environ(), storeVar+"="+at, fileVar+"="+file, stopVar+"="+stop, beginVar+"="+begin)
	c.Stderr = os.Stderr
	return c
}

// killed runs a gateway that is killed at its n-th stop; false if it ended before.
func killed(t *testing.T, at, file string, n int, begin string) bool {
	t.Helper()
	c := process(t, at, file, fmt.Sprint(n), begin)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line == "stopped\n" {
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = io.Copy(io.Discard, out)
	_ = c.Wait() // it was killed, or has ended
	return line == "stopped\n"
}

// stops is about how many stops a run has.
const stops = 80

// Gateways that are killed at any moment, twice in a row, leave a run that goes on to its
// end: nothing that writes was called twice, and each inference is charged once, with what
// its step says.
func TestKilledAtAnyStep(t *testing.T) {
	t.Parallel()
	for kind, at := range map[string]func(t *testing.T) string{
		"SQLite":     func(t *testing.T) string { return filepath.Join(t.TempDir(), "store.db") },
		"PostgreSQL": func(t *testing.T) string { return postgres.SchemaURL(t) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			places := make(chan struct{}, 2)
			for i := range *killedRuns {
				n := rand.IntN(stops)
				if i == 0 {
					n = 0
				}
				t.Run(fmt.Sprintf("%d at %d", i, n), func(t *testing.T) {
					t.Parallel()
					places <- struct{}{}
					defer func() { <-places }()
					killedOnce(t, at(t), n, rand.IntN(stops))
				})
			}
		})
	}
}

// killedOnce runs an agent that is killed at a stop, and once more after it was taken over.
func killedOnce(t *testing.T, at string, n, again int) {
	file := filepath.Join(t.TempDir(), "made")
	killed(t, at, file, n, "yes")
	killed(t, at, file, again, "")
	last := process(t, at, file, "", "")
	last.Stdout = os.Stderr
	if err := last.Run(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	writes := slices.DeleteFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "write") })
	slices.Sort(writes)
	if slices.ContainsFunc(slices.Compact(slices.Clone(writes)), func(w string) bool { return strings.Count(string(raw), w+"\n") > 1 }) {
		t.Errorf("killed at %d and %d: written twice: %q", n, again, writes)
	}
	s, err := store.Open(t.Context(), options(at))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := runs.New(s).List(t.Context(), runs.Filter{})
	if err != nil || len(list) > 1 || len(list) == 1 && list[0].State != runs.Completed {
		t.Errorf("killed at %d and %d: %d runs, %v", n, again, len(list), err)
		for i := range list {
			t.Errorf("%s is %s", list[i].ID, list[i].State)
		}
	}
	if len(list) == 0 { // it died before there was a run
		return
	}
	steps, err := runs.New(s).Steps(t.Context(), list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	least, most := int64(0), int64(0)
	for i := range steps {
		step := &steps[i]
		if step.State == runs.Begun {
			t.Errorf("killed at %d and %d: the step %+v has no end", n, again, step)
		}
		if most += step.Input + step.Output; step.State != runs.StepUnknown {
			least += step.Input + step.Output
		}
	}
	limits, err := limiter(s)
	if err != nil {
		t.Fatal(err)
	}
	used, err := sqlstore.New(s, slog.New(slog.DiscardHandler)).Usage(t.Context(), limits.Now(), budget.Filter{}, 10)
	if err != nil || len(used) != 1 {
		t.Fatal(used, err)
	}
	// An inference without an end may have died before its charge.
	if got := used[0].Used; got < least || got > most {
		t.Errorf("killed at %d and %d: %d tokens are charged, and the steps have %d to %d", n, again, got, least, most)
	}
}

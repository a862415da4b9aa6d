//go:build !windows

package schedule_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/daemon/schedule"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// postgres is the PostgreSQL server of the tests.
var postgres storetest.Server

// The variables of a process that makes planned calls: the store, the file in which it
// writes what it does, and the step at which it stops until it is killed.
const (
	storeVar, fileVar, stopVar = "SCHEDULE_TEST_STORE", "SCHEDULE_TEST_FILE", "SCHEDULE_TEST_STOP"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if path := os.Getenv(storeVar); path != "" {
		if err := gateway(path, os.Getenv(fileVar), os.Getenv(stopVar)); err != nil {
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

// steps are all moments between which something is written or done.
var steps = []string{"claim", "claimed", "present", "call", "effect", "finish", "finished"}

// gated is the planned calls of a store, with a stop before and after each change.
type gated struct {
	*store.Schedules
	at func(step string)
}

func (g gated) Claim(ctx context.Context, holder string, missed, lease time.Time, but ...string) (store.Schedule, bool, error) {
	due, ok, err := g.Next(ctx, but...)
	if err == nil && ok && !due.After(time.Now()) {
		g.at("claim")
	}
	s, ok, err := g.Schedules.Claim(ctx, holder, missed, lease, but...)
	if ok {
		g.at("claimed")
	}
	return s, ok, err
}

func (g gated) Finish(ctx context.Context, id, holder, state string, end store.ScheduleEnd) (bool, error) {
	g.at("finish")
	ok, err := g.Schedules.Finish(ctx, id, holder, state, end)
	g.at("finished")
	return ok, err
}

// gateway makes the calls of a store until all have ended. It writes a line for each look
// at an owner, and one for each call that is made.
func gateway(path, file, stop string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := store.Open(ctx, store.Options{Path: path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	log, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	at := func(step string) {
		if step == stop {
			fmt.Println("stopped")
			<-ctx.Done() // killed before
		}
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { _ = s.Run(ctx) })
	r := schedule.New(schedule.Options{
		Log: slog.New(slog.DiscardHandler), Calls: gated{store.NewSchedules(s), at}, On: func() bool { return true }, Lease: 300 * time.Millisecond,
		Present: func(principal, _ string) (*gate.Identity, bool) {
			at("present")
			fmt.Fprintln(log, "present", os.Getpid(), principal)
			return &gate.Identity{}, true
		},
		Make: func(_ context.Context, _ func() (*gate.Identity, bool), c *store.Schedule) (string, store.ScheduleEnd) {
			at("call")
			fmt.Fprintln(log, "made", os.Getpid(), c.Principal, c.ID)
			at("effect")
			return store.ScheduleMade, store.ScheduleEnd{}
		},
	})
	all.Go(func() { _ = r.Run(ctx, ctx) })
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		r.Changed()
		list, err := store.NewSchedules(s).List(ctx, "alice")
		if err != nil {
			return err
		}
		// One that is to be killed stays, though its claim may end before.
		if stop == "" && !slices.ContainsFunc(list, func(c store.Schedule) bool { return c.EndedAt.IsZero() }) {
			return nil
		}
	}
	return nil
}

// process returns the test program as a gateway.
func process(t *testing.T, path, file, stop string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(os.Environ(), storeVar+"="+path, fileVar+"="+file, stopVar+"="+stop)
	c.Stderr = os.Stderr
	return c
}

// planIn plans calls of alice that are due in a new store.
func planIn(t *testing.T, s *store.Store, n int) {
	t.Helper()
	for range n {
		if _, err := store.NewSchedules(s).Add(t.Context(), store.Schedule{Principal: "alice", Tool: "t", DueAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
}

// opened opens a store and runs it until the end of the test.
func opened(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A gateway that is killed at any step has made a call once or not at all, and the next
// one does not make it again. It looks at the owner before each call that it makes.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for i, step := range steps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, file := filepath.Join(dir, "store.db"), filepath.Join(dir, "made")
			s, err := store.Open(t.Context(), store.Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			planIn(t, s, 1)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			first := process(t, path, file, step)
			out, err := first.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := first.Start(); err != nil {
				t.Fatal(err)
			}
			line, _ := bufio.NewReader(out).ReadString('\n')
			if line != "stopped\n" {
				t.Errorf("the gateway said %q before %s", line, step)
			}
			if err := first.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, out)
			_ = first.Wait() // it was killed
			second := process(t, path, file, "")
			second.Stdout = os.Stderr
			if err := second.Run(); err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(file)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			made := strings.Count(string(raw), "made ")
			wantMade, wantState := 1, store.ScheduleLost
			switch {
			case i == 0: // it was not claimed
				wantState = store.ScheduleMade
			case i <= slices.Index(steps, "call"):
				wantMade = 0
			case step == "finished":
				wantState = store.ScheduleMade
			}
			after := opened(t, store.Options{Path: path})
			list, err := store.NewSchedules(after).List(t.Context(), "alice")
			if err != nil || len(list) != 1 || list[0].State != wantState || made != wantMade {
				t.Errorf("%+v, %v; made %d times, want %d and %s\n%s", list, err, made, wantMade, wantState, raw)
			}
			for n, line := range strings.Split(string(raw), "\n") {
				if words := strings.Fields(line); len(words) > 2 && words[0] == "made" && !strings.Contains(strings.Join(strings.Split(string(raw), "\n")[:n], "\n"), "present "+words[1]+" "+words[2]) {
					t.Errorf("made without a look at the owner:\n%s", raw)
				}
			}
		})
	}
}

// Two gateways on one PostgreSQL share the calls, and none is made by both.
func TestTwoGateways(t *testing.T) {
	t.Parallel()
	url := postgres.URL(t)
	const calls = 30
	var mu sync.Mutex
	made := map[string][]int{}
	var stores []*store.Store
	for range 2 {
		stores = append(stores, opened(t, store.Options{URL: url}))
	}
	planIn(t, stores[0], calls)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	both := make(chan struct{}) // closed when both have made a call
	var once sync.Once
	var all sync.WaitGroup
	for n, s := range stores {
		r := schedule.New(schedule.Options{
			Log: slog.New(slog.DiscardHandler), Calls: store.NewSchedules(s), On: func() bool { return true },
			Present: func(string, string) (*gate.Identity, bool) { return &gate.Identity{}, true },
			Make: func(ctx context.Context, _ func() (*gate.Identity, bool), c *store.Schedule) (string, store.ScheduleEnd) {
				mu.Lock()
				made[c.ID] = append(made[c.ID], n)
				by := map[int]bool{}
				for _, who := range made {
					by[who[0]] = true
				}
				if len(by) == 2 {
					once.Do(func() { close(both) })
				}
				mu.Unlock()
				select { // so that one alone cannot make them all
				case <-both:
				case <-ctx.Done():
				}
				return store.ScheduleMade, store.ScheduleEnd{}
			},
		})
		all.Go(func() { _ = r.Run(ctx, ctx) })
	}
	ended := testwait.Within(30*time.Second, func() bool {
		list, err := store.NewSchedules(stores[0]).List(ctx, "alice")
		return err == nil && !slices.ContainsFunc(list, func(c store.Schedule) bool { return c.State != store.ScheduleMade })
	})
	cancel()
	all.Wait()
	if len(made) != calls || !ended {
		t.Errorf("%d of %d were made; ended: %t", len(made), calls, ended)
	}
	for id, by := range made {
		if len(by) != 1 {
			t.Errorf("%s was made by %v", id, by)
		}
	}
}

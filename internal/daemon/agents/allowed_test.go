package agents

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/store/runs"
	"github.com/toolgate/toolgate/native/agents"
)

// A run whose caller is not there goes on only if somebody says so. It waits while nobody can,
// and is left to another gateway where this one has its agent no more.
func TestStillAllowed(t *testing.T) {
	for name, tt := range map[string]struct {
		answers  []string // one after the other; "?" is an error
		absent   bool
		gone     bool
		want     error
		says     string
		waits    time.Duration
		deadline time.Duration
	}{
		"allowed":           {answers: []string{""}},
		"denied":            {answers: []string{"You may not call it."}, says: "You may not call it"},
		"undecided":         {answers: []string{"?", "?", ""}, waits: 2 * undecidedTime},
		"then denied":       {answers: []string{"?", "No."}, says: "No", waits: undecidedTime},
		"never decided":     {answers: []string{"?", "?", "?", "?"}, want: context.DeadlineExceeded, deadline: 12 * time.Second, waits: 12 * time.Second},
		"a revoked key":     {absent: true, want: errAbsent},
		"without the agent": {gone: true, want: agents.ErrLeft},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				task := &agents.Task{Task: "work", Allowed: []string{"a"}}
				h := New(Options{
					Log:     slog.New(slog.DiscardHandler),
					Present: func(string, string) (*gate.Identity, bool) { return &gate.Identity{}, !tt.absent },
					Agents: func() map[string]agents.Settings {
						if tt.gone {
							return nil
						}
						return map[string]agents.Settings{"worker": {}}
					},
					May: func(_ context.Context, _ *gate.Identity, capsule, agent string, args []byte, begun bool) (string, error) {
						if capsule != "c" || agent != "worker" || string(args) != `{"allowed_tools":["a"],"task":"work"}` || !begun {
							t.Errorf("asked about %s, %s, %s, %t", capsule, agent, args, begun)
						}
						next := tt.answers[0]
						tt.answers = tt.answers[1:]
						if next == "?" {
							return "", errors.New("the policy server is away")
						}
						return next, nil
					},
				})
				ctx := t.Context()
				if tt.deadline > 0 {
					with, cancel := context.WithTimeout(ctx, tt.deadline)
					defer cancel()
					ctx = with
				}
				began := time.Now()
				err := h.stillAllowed(ctx, &work{run: runs.Run{ID: "r", Capsule: "c", Agent: "worker"}, task: task})
				switch {
				case tt.want != nil:
					if !errors.Is(err, tt.want) {
						t.Errorf("%v, want %v", err, tt.want)
					}
				case tt.says != "":
					if err == nil || !strings.Contains(err.Error(), tt.says) {
						t.Errorf("%v, want %q", err, tt.says)
					}
				case err != nil:
					t.Error(err)
				}
				if waited := time.Since(began); waited != tt.waits {
					t.Errorf("it has waited %v", waited)
				}
			})
		})
	}
}

// Runs about which nobody can decide hold up no others that are taken over. Once they are
// decided, those that find a place go on at once, and the rest is left to whoever has one: none
// waits for a place while its time passes.
func TestUndecidedRunsGiveUpTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 3 * maxTaken
		var decides atomic.Bool
		h := New(Options{
			Log:     slog.New(slog.DiscardHandler),
			Present: func(string, string) (*gate.Identity, bool) { return &gate.Identity{}, true },
			Agents:  func() map[string]agents.Settings { return map[string]agents.Settings{"worker": {}} },
			May: func(context.Context, *gate.Identity, string, string, []byte, bool) (string, error) {
				if !decides.Load() {
					return "", errors.New("the policy server is away")
				}
				return "", nil
			},
		})
		free := newPlaces()
		var goesOn, left atomic.Int32
		var working sync.WaitGroup
		end := make(chan struct{})
		for n := range all {
			own := free.take()
			if own == nil {
				t.Fatalf("there is no place for another run than %d", n)
			}
			working.Go(func() {
				defer own.leave()
				switch err := h.stillAllowed(t.Context(), &work{run: waiting("r"), task: &agents.Task{Task: "work"}, place: own}); {
				case err == nil:
					goesOn.Add(1)
					<-end
				case errors.Is(err, agents.ErrLeft):
					left.Add(1)
				default:
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		decides.Store(true)
		time.Sleep(undecidedTime)
		synctest.Wait()
		if goesOn.Load() != maxTaken || left.Load() != all-maxTaken {
			t.Errorf("%d go on, and %d are left", goesOn.Load(), left.Load())
		}
		if len(free.working) != maxTaken || len(free.idle) != 0 {
			t.Errorf("%d places are taken, and %d runs wait", len(free.working), len(free.idle))
		}
		close(end)
		working.Wait()
		if n := len(free.working); n != 0 {
			t.Errorf("%d places are not given back", n)
		}
	})
}

// A run that waits with too many others keeps its place. One that finds none afterwards is left.
func TestIdlePlaces(t *testing.T) {
	t.Parallel()
	all := newPlaces()
	own := all.take()
	for range maxIdle {
		all.idle <- struct{}{}
	}
	if err := own.idle(func() error {
		if !own.held {
			t.Error("it has given up its place")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	<-all.idle
	err := own.idle(func() error {
		for all.take() != nil { // others get them all
			continue
		}
		return nil
	})
	if !errors.Is(err, agents.ErrLeft) || own.held {
		t.Errorf("%v, held: %t", err, own.held)
	}
	own.leave()
	if len(all.working) != maxTaken || len(all.idle) != maxIdle-1 {
		t.Errorf("%d places and %d idle ones are taken", len(all.working), len(all.idle))
	}
}

// Whoever was refused a place is told of the next one that is given up, also where another place
// has become free meanwhile. Nobody is told who was not refused one.
func TestFreedPlacesAreTold(t *testing.T) {
	t.Parallel()
	all := newPlaces()
	told := 0
	var own []*place
	for range maxTaken {
		p := all.take()
		p.freed = func() { told++ }
		own = append(own, p)
	}
	idle := func(p *place) {
		if err := p.idle(func() error { return nil }); err != nil {
			t.Error(err)
		}
	}
	if idle(own[0]); told != 0 {
		t.Errorf("told %d times, and nobody was refused", told)
	}
	if all.take() != nil {
		t.Fatal("there is a place too many")
	}
	own[1].leave() // tells nobody: whoever leaves for good does that itself
	if idle(own[0]); told != 1 {
		t.Errorf("told %d times after one was refused", told)
	}
	if idle(own[0]); told != 1 {
		t.Errorf("told %d times of one refusal", told)
	}
}

func waiting(id string) runs.Run { return runs.Run{ID: id, Capsule: "c", Agent: "worker"} }

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

// Runs about which nobody can decide hold up no others that are taken over. Each goes on in a
// place of its own.
func TestUndecidedRunsGiveUpTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		all := newPlaces()
		var freed atomic.Int32
		var working sync.WaitGroup
		goOn := make(chan struct{})
		for range maxTaken {
			own := all.take()
			if own == nil {
				t.Fatal("there are too few places")
			}
			own.freed = func() { freed.Add(1) }
			working.Go(func() {
				defer own.leave()
				if err := h.stillAllowed(t.Context(), &work{run: waiting("r"), task: &agents.Task{Task: "work"}, place: own}); err != nil {
					t.Error(err)
				}
				<-goOn
			})
		}
		synctest.Wait()
		other := all.take()
		if other == nil || freed.Load() == 0 {
			t.Fatalf("no place is free for another run, and %d were told", freed.Load())
		}
		decides.Store(true)
		time.Sleep(undecidedTime)
		synctest.Wait()
		if n := len(all.working); n != maxTaken || all.take() != nil {
			t.Errorf("%d places are taken", n)
		}
		other.leave()
		synctest.Wait()
		if n := len(all.idle); n != 0 {
			t.Errorf("%d runs still wait", n)
		}
		close(goOn)
		working.Wait()
		if n := len(all.working); n != 0 {
			t.Errorf("%d places are not given back", n)
		}
	})
}

// A run that waits with too many others keeps its place, and one that ends meanwhile has none.
func TestIdlePlaces(t *testing.T) {
	all := newPlaces()
	own := all.take()
	for range maxIdle {
		all.idle <- struct{}{}
	}
	if err := own.idle(t.Context(), func() error {
		if !own.held {
			t.Error("it has given up its place")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	<-all.idle
	ctx, cancel := context.WithCancel(t.Context())
	err := own.idle(ctx, func() error {
		for all.take() != nil { // others get them all
			continue
		}
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || own.held {
		t.Errorf("%v, held: %t", err, own.held)
	}
	own.leave()
	if len(all.working) != maxTaken || len(all.idle) != maxIdle-1 {
		t.Errorf("%d places and %d idle ones are taken", len(all.working), len(all.idle))
	}
}

func waiting(id string) runs.Run { return runs.Run{ID: id, Capsule: "c", Agent: "worker"} }

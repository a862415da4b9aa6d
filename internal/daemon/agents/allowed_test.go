package agents

import (
	"context"
	"errors"
	"log/slog"
	"strings"
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

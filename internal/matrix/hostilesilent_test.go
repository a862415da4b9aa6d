//go:build e2e

package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/upstream"
)

const (
	// silence is how long the gateway waits for an answer in these tests.
	silence = 200 * time.Millisecond
	// silentIdle makes the gateway look for calls that were left ten times in
	// a second.
	silentIdle = 2 * time.Second
)

// TestSilentClients has clients declare what they never answer. The wait is
// bounded: then the server is told no, or that the call has been given up, and
// the call ends with one audit entry.
func TestSilentClients(t *testing.T) {
	r := startRig(t, setup{
		workers: len(kinds()), servers: hostileServers,
		mounts: func(kind) []upstream.Isolation { return []upstream.Isolation{upstream.IsolateAuto} },
		limits: func(l *config.Limits) { l.RoundTime, l.Idle = silence, silentIdle }, // a user waits longer
	})
	ctx, cancel := context.WithTimeout(t.Context(), *cellTime)
	defer cancel()
	errs := make([]error, len(kinds()))
	var running sync.WaitGroup
	for i, down := range kinds() {
		running.Go(func() {
			for _, up := range hostileServers {
				if err := r.stayAway(ctx, r.workers[i], down, up); err != nil {
					errs[i] = errors.Join(errs[i], fmt.Errorf("%s to %s: %w", down, up, err))
				}
			}
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	for _, stray := range r.strays() {
		t.Errorf("outside of every call: %s", stray)
	}
}

// stayAway makes a call and leaves its question alone.
func (r *rig) stayAway(ctx context.Context, w worker, down, up kind) error {
	name := fmt.Sprintf("silent %s to %s", down.slug(), up.slug())
	c, err := r.connect(ctx, down, w, name, declared(down))
	if err != nil {
		return err
	}
	defer c.close()
	cell := r.cellOf(c, up)
	c.think = func(mcp.Message, *origin) bool { return false }
	raw, err := json.Marshal(script{Cell: cell.id, Unanswered: true, Rounds: [][]question{{cell.other("only")}}})
	if err != nil {
		return err
	}
	out, err := c.once(ctx, c.meta([]byte(`{"name":"`+cell.to.tool("ask")+`","arguments":`+string(raw)+`}`), ""))
	if err != nil {
		return err
	}
	entry, err := r.audited(ctx, name, func(e *audit.Entry) bool { return e.Client.Name == name })
	if err != nil {
		return err
	}
	switch {
	case down.modern():
		err = cell.left(ctx, out, entry)
	case up.modern():
		err = cell.refusedQuestion(out, entry)
	default:
		err = cell.toldNo(out, entry)
	}
	return errors.Join(err, c.barrier(ctx), cell.broken())
}

// left wants the call of a modern client that never came back to be over: its
// entry is closed, and a server that still works on it is told so.
func (c *cell) left(ctx context.Context, out outcome, entry audit.Entry) error {
	if kind, _ := mcp.LookupString(out.result, "resultType"); kind != mcp.ResultInputRequired {
		return fmt.Errorf("the client was not asked: %s", out.result)
	}
	if entry.Outcome != audit.OutcomeAbandoned {
		return fmt.Errorf("the outcome is %q: %s", entry.Outcome, entry.Reason)
	}
	if c.to.kind.modern() {
		return nil // which waits for nobody
	}
	signal, err := c.await(ctx, "unanswered")
	if err == nil && signal != errWithdrawn.Error() {
		err = fmt.Errorf("the server was told %q", signal)
	}
	return err
}

// refusedQuestion wants a legacy client's call of a modern server, which waits
// for nobody, to end with a refusal.
func (c *cell) refusedQuestion(out outcome, entry audit.Entry) error {
	kind, _ := mcp.LookupString(out.result, "_meta", refusal.Key, "kind")
	if kind != "question_refused" || entry.Code != kind {
		return fmt.Errorf("answered %s, audited as %q %q", out.result, entry.Outcome, entry.Code)
	}
	return nil
}

// toldNo wants a legacy server to have got an answer: the user's no, or the
// error that says that nobody answered.
func (c *cell) toldNo(out outcome, entry audit.Entry) error {
	var answers []answered
	if err := json.Unmarshal([]byte(said(out.result)), &answers); err != nil || len(answers) != 1 || entry.Outcome != audit.OutcomeOK {
		return fmt.Errorf("the server's word on its answers: %s, audited as %q", out.result, entry.Outcome)
	}
	if action, _ := mcp.LookupString(answers[0].Answer, "action"); answers[0].Fault == nil && action != "decline" && action != "cancel" {
		return fmt.Errorf("the server was answered %s", answers[0].Answer)
	}
	return nil
}

//go:build e2e

package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream"
)

// hostileServers are behind the gateway that is attacked.
var hostileServers = []kind{
	{mcp.V20251125, overStdio},
	{mcp.V20250618, overSSE},
	{mcp.V20251125, overStreamable},
	{mcp.V20260728, overStdio},
	{mcp.V20260728, overStreamable},
}

// siege is an attack of one principal while others are in the middle of their
// calls.
type siege struct {
	rig      *rig
	attacker worker
	name     string // of the attacker's clients
	log      *logText

	victim      worker
	stdio, http *bystander // legacy
	sse         *bystander
	suspended   *bystander // modern, at a legacy server
	modern      *bystander // at a modern one
}

// attack is one way to be hostile as a client.
type attack struct {
	about string
	run   func(ctx context.Context, s *siege) error
	// forged tells that it uses what is another principal's, which is logged.
	forged bool
}

var attacks = []attack{
	{about: "answers to questions that were never asked", run: unasked},
	{about: "answers with wrong, repeated and late ids", run: wrongAnswers},
	{about: "rounds that are malformed, repeated and raced", run: wrongRounds},
	{about: "another principal's request state", run: forgedState, forged: true},
	{about: "another principal's session", run: forgedSession},
	{about: "another principal's event id", run: forgedEvent, forged: true},
	{about: "another principal's cursor", run: forgedCursor, forged: true},
	{about: "another principal's subscription id", run: forgedSubscription},
	{about: "another principal's progress token", run: forgedToken},
	{about: "another principal's task id", run: forgedTask, forged: true},
}

// TestHostileClients attacks a gateway as a client of one principal while
// clients of another are asked by their servers, over every transport: what is
// forged is refused, and the others' calls end as if nothing had been.
func TestHostileClients(t *testing.T) {
	log := &logText{}
	r := startRig(t, setup{
		workers: 2, servers: hostileServers, log: log,
		mounts: func(kind) []upstream.Isolation { return []upstream.Isolation{upstream.IsolateAuto} },
		limits: func(l *config.Limits) { l.Page = 7 },
	})
	for i, a := range attacks {
		t.Run(a.about, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), *cellTime)
			defer cancel()
			s := &siege{rig: r, victim: r.workers[0], attacker: r.workers[1], name: fmt.Sprintf("attacker-%d", i), log: log}
			if err := s.surround(ctx); err != nil {
				t.Fatal(err)
			}
			log.take()
			if err := a.run(ctx, s); err != nil {
				t.Error(err)
			}
			if a.forged && !s.logged() {
				t.Error("is not logged")
			}
			if err := s.lift(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for _, stray := range r.strays() {
		t.Errorf("outside of every call: %s", stray)
	}
}

// surround brings the bystanders to where they are asked.
func (s *siege) surround(ctx context.Context) (err error) {
	for _, b := range []struct {
		to       **bystander
		down, up kind
	}{
		{&s.stdio, kind{mcp.V20251125, overStdio}, hostileServers[0]},
		{&s.sse, kind{mcp.V20241105, overSSE}, hostileServers[1]},
		{&s.http, kind{mcp.V20251125, overStreamable}, hostileServers[2]},
		{&s.suspended, kind{mcp.V20260728, overStreamable}, hostileServers[2]},
		{&s.modern, kind{mcp.V20260728, overStdio}, hostileServers[4]},
	} {
		if *b.to, err = s.rig.bystand(ctx, s.victim, b.down, b.up); err != nil {
			return err
		}
	}
	return nil
}

// lift lets the bystanders end their calls.
func (s *siege) lift(ctx context.Context) error {
	var all []error
	for _, b := range []*bystander{s.stdio, s.sse, s.http, s.suspended, s.modern} {
		if err := b.leave(ctx); err != nil {
			all = append(all, fmt.Errorf("a bystander on %s: %w", b.kind, err))
		}
	}
	return errors.Join(all...)
}

// attackerOn is a client of the attacker, with a cell to a server.
func (s *siege) attackerOn(ctx context.Context, down, up kind) (*client, *cell, error) {
	c, err := s.rig.connect(ctx, down, s.attacker, s.name, declared(down))
	if err != nil {
		return nil, nil, err
	}
	return c, s.rig.cellOf(c, up), nil
}

// logged tells whether the gateway's records say that the attacker was refused:
// the audit log, or the log of the program.
func (s *siege) logged() bool {
	entries, err := audit.Closed(s.rig.audit)
	return err == nil && slices.ContainsFunc(entries, func(e audit.Entry) bool {
		return e.Client.Name == s.name && e.Outcome == audit.OutcomeDenied && e.Principal.Subject == s.attacker.subject
	}) || strings.Contains(s.log.take(), s.attacker.subject)
}

// refusedAs wants an error with a code.
func refusedAs(what string, code int, got outcome, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case got.fault == nil || got.fault.Code != code:
		return fmt.Errorf("%s: answered %s %v, not the error %d", what, got.result, got.fault, code) //nolint:errorlint // it is what is looked at
	}
	return nil
}

// logText keeps what a logger writes until it is taken. It is safe for
// concurrent use.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *logText) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logText) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

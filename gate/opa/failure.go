package opa

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
)

const (
	// maxRemembered bounds the failures that are remembered, and failureAge for how
	// long they are.
	maxRemembered = 64
	failureAge    = 10 * time.Minute
)

// Failure is something that the policy could not decide about lately, while it decides
// about others: who it is hidden from, or refused to, may not be meant to be.
type Failure struct {
	Action string // as the policy is asked
	Name   string // exposed name of what it is about
	Text   string // what went wrong last
	Count  int    // how often, since the policy is in force
	Last   time.Time
}

// String says it to a person.
func (f Failure) String() string {
	return fmt.Sprintf("the policy could not decide %s of %s, which is denied and hidden (%d times): %s", f.Action, f.Name, f.Count, f.Text)
}

// failures remembers them. The zero value is empty.
type failures struct {
	mu     sync.Mutex
	policy *policy // that they are of; nil for a remote one
	of     map[failureKey]*Failure
}

type failureKey struct{ action, name string }

// add notes a failure and tells whether it is news.
func (f *failures) add(of *policy, action, name, text string) (news bool) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil || f.policy != of {
		f.policy, f.of = of, make(map[failureKey]*Failure)
	}
	key := failureKey{action, name}
	known := f.of[key]
	if known == nil {
		if len(f.of) >= maxRemembered {
			f.forget(now)
		}
		if len(f.of) >= maxRemembered {
			return false
		}
		known = &Failure{Action: action, Name: name}
		f.of[key] = known
	}
	news = now.Sub(known.Last) > failureAge
	known.Text, known.Last, known.Count = text, now, known.Count+1
	return news
}

// forget forgets what has not failed for long; mu is held.
func (f *failures) forget(now time.Time) {
	for key, known := range f.of {
		if now.Sub(known.Last) > failureAge {
			delete(f.of, key)
		}
	}
}

// list returns those of a policy, by name.
func (f *failures) list(of *policy) []Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.policy != of {
		return nil
	}
	f.forget(time.Now())
	list := make([]Failure, 0, len(f.of))
	for _, known := range f.of {
		list = append(list, *known)
	}
	slices.SortFunc(list, func(a, b Failure) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Action, b.Action)) })
	return list
}

// Failures are what the policy in force could not decide about within ten minutes, by
// name, and at most 64 of them.
func (p *Phase) Failures() []Failure { return p.failures.list(p.current.Load()) }

// noteFailure tells of a decision that the policy could not make.
func (p *Phase) noteFailure(ctx context.Context, r *gate.Request, err error) {
	own, ok := errors.AsType[*gate.RequestError](err)
	if !ok || r == nil {
		return
	}
	action, _ := p.o.action(r) // it was asked for before
	if p.o.OnFailure != nil {
		p.o.OnFailure(action)
	}
	if p.failures.add(p.current.Load(), action, r.Exposed, own.Error()) {
		p.o.Logger.LogAttrs(ctx, slog.LevelError, "the policy could not decide, so that it is denied and hidden",
			slog.String("action", action), slog.String("name", r.Exposed), slog.Any("identity", r.Identity), slog.Any("error", err))
	}
}

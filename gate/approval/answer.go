package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/store"
)

var (
	// ErrNotYours tells that somebody may not answer this question.
	ErrNotYours = errors.New("you are not among those who may answer this")
	// ErrNotFromHere tells that an answer came from a process that the gateway has started.
	ErrNotFromHere = errors.New("answers from a process that the gateway has started are refused")
	// ErrDecided tells that a question is decided already or has expired.
	ErrDecided = errors.New("it is decided already, or it has expired")
	// ErrNoDenial tells that there is no denial to take back.
	ErrNoDenial = errors.New("no denial of it is in force")
	// ErrUnseen tells that somebody approved arguments that were not shown in full,
	// without their hash or with a wrong one.
	ErrUnseen = errors.New("to approve them, name their hash from the question; the given hash is missing or wrong")
	// ErrUnknown tells that there is no such question.
	ErrUnknown = errors.New("there is no approval of this id")
)

// Answerer is somebody who answers for others.
type Answerer struct {
	// Name identifies the answerer in the record. Required.
	Name string
	// Identity is the answerer's identity; nil for an operator, and for somebody whom
	// another system vouches for. It counts for calls of its own tenant.
	Identity *gate.Identity
	// Subject, Tenant and Groups are the claims of a system that vouches for the
	// answerer. An answerer with the caller's name does not count, and neither does one
	// of another tenant. An empty tenant is [gate.DefaultTenant]. They are ignored
	// where Identity is set.
	Subject, Tenant string
	Groups          []string
	// Operator is set for holders of the admin token.
	Operator bool
	// Hash is the hash of the approved arguments. It is required where they were not
	// shown in full, and must be right wherever it is given.
	Hash string
}

// Answer records the caller's own answer. It counts where the requester may answer,
// and while the demands on the call are those of the question. The question is
// returned as it is then.
func (d *Service) Answer(ctx context.Context, q *gate.Question, id string, grant bool) (gate.Approval, error) {
	if d == nil || d.store == nil {
		return gate.Approval{}, errNoService
	}
	r, found, err := d.record(ctx, id)
	if err != nil || !found {
		return gate.Approval{ID: id, State: gate.ApprovalExpired}, err
	}
	item := itemOf(r)
	if r.ApprovalKey != key(q) || !item.may(gate.ByRequester) {
		return gate.Approval{}, fmt.Errorf("answer %s: %w", id, ErrNotYours)
	}
	if open := r.State == store.ApprovalPending || r.State == store.ApprovalGranted; open && !item.sameBy(d.by(q)) {
		ctx, cancel := context.WithTimeout(ctx, storeTime)
		defer cancel()
		return d.changedConditions(ctx, r, q)
	}
	decided, err := d.decide(ctx, id, grant, store.Change{Actor: Name(q.Identity), Reason: "asked in the client"})
	if errors.Is(err, ErrDecided) {
		err = nil // the state says what came first
	}
	return decided.approval(), err
}

// Decide records the answer of somebody other than the caller. When it does not count,
// the error wraps [ErrUnknown], [ErrNotYours], [ErrUnseen] or [ErrDecided].
func (d *Service) Decide(ctx context.Context, id string, grant bool, who Answerer, reason string) (Item, error) {
	r, err := d.known(ctx, id)
	if err != nil {
		return Item{}, err
	}
	item := itemOf(r)
	if !who.counts(item, r.Principal) {
		return Item{}, fmt.Errorf("%s: %w", id, ErrNotYours)
	}
	if open := r.State == store.ApprovalPending; open && grant && who.Hash != item.ArgsHash && (who.Hash != "" || item.ArgsMissing > 0) {
		return item, fmt.Errorf("%s: %d of %d bytes of the arguments are not shown: %w", id, item.ArgsMissing, item.ArgsBytes, ErrUnseen)
	}
	return d.decide(ctx, id, grant, store.Change{Actor: who.Name, Reason: reason})
}

// Retract takes a denial back, so that the next equal call is asked about anew. Those
// whose answer would have counted may retract, and operators, who grant nothing by it.
// When nothing was taken back, the error wraps [ErrUnknown], [ErrNotYours] or
// [ErrNoDenial].
func (d *Service) Retract(ctx context.Context, id string, who Answerer) (Item, error) {
	r, err := d.known(ctx, id)
	switch {
	case err != nil:
		return Item{}, err
	case who.Name == "" || !who.Operator && !who.counts(itemOf(r), r.Principal):
		return Item{}, fmt.Errorf("%s: %w", id, ErrNotYours)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	r, ok, err := d.store.Retract(ctx, id)
	if err != nil {
		return Item{}, err
	}
	if !ok {
		return itemOf(r), fmt.Errorf("%s is %s: %w", id, itemOf(r).State, ErrNoDenial)
	}
	d.log.Info("a denial was taken back", "approval", id, "by", who.Name)
	return itemOf(r), nil
}

// counts tells whether the answer counts for a question about a principal's call.
func (w *Answerer) counts(item Item, principal string) bool {
	if w.Name == "" {
		return false
	}
	var groups []string
	switch {
	case w.Identity != nil:
		if w.Identity.Key() == principal || w.Identity.Tenant != item.Tenant {
			return false // callers do not answer their own calls in another role
		}
		groups = w.Identity.Groups
	case w.Subject != "":
		if shown(w.Subject) == item.Subject || cmp.Or(w.Tenant, gate.DefaultTenant) != item.Tenant {
			return false
		}
		groups = w.Groups
	}
	var is []string
	if w.Operator {
		is = append(is, gate.ByOperator)
	}
	for _, group := range groups {
		if group != gate.ByOperator && group != gate.ByRequester { // reserved words, which are not group names
			is = append(is, group)
		}
	}
	return item.may(is...)
}

// Name names an identity in the record of a decision.
func Name(id *gate.Identity) string { return shown(id.Subject + " of " + id.Tenant) }

func (d *Service) decide(ctx context.Context, id string, grant bool, by store.Change) (Item, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	r, ok, err := d.store.Decide(ctx, id, grant, time.Now().Add(d.settings.Load().Valid), by)
	if err != nil {
		return Item{}, err
	}
	d.Changed()
	item := itemOf(r)
	if !ok {
		return item, fmt.Errorf("%s is %s: %w", id, item.State, ErrDecided)
	}
	d.log.Info("a question was decided", "approval", id, "granted", grant, "by", by.Actor, "reason", by.Reason)
	return item, nil
}

// known returns the record of a question; the error wraps [ErrUnknown] where there is
// none.
func (d *Service) known(ctx context.Context, id string) (store.ApprovalRecord, error) {
	if d == nil || d.store == nil {
		return store.ApprovalRecord{}, errNoService
	}
	r, found, err := d.record(ctx, id)
	if err == nil && !found {
		err = fmt.Errorf("%w: %.64q; `toolgate approvals ls` lists those that wait", ErrUnknown, id)
	}
	return r, err
}

func (d *Service) record(ctx context.Context, id string) (store.ApprovalRecord, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return d.store.Get(ctx, id)
}

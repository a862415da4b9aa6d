package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/store"
)

// storeTime bounds one request to the store.
const storeTime = 5 * time.Second

// Bounds of the description of a call for people: bytes of each text, and number of
// reasons.
const (
	maxShown   = 200
	maxReasons = 8
)

// maxArguments bounds the arguments that people are shown, in bytes.
const maxArguments = 16 << 10

// Options configure a [Service].
type Options struct {
	// Settings are the operator's. By lists groups, [gate.ByRequester] or
	// [gate.ByOperator]; it counts for demands that name nobody. Times of 0 mean the
	// defaults.
	Settings

	// Asked is called with every new question, and must not block; nil: nothing is
	// called.
	Asked func(Item)
}

// Service stores questions and answers. It is safe for concurrent use. The zero value
// refuses everything.
type Service struct {
	store    *store.Approvals
	log      *slog.Logger
	settings atomic.Pointer[Options]

	mu      sync.Mutex
	changed chan struct{} // closed at the next change of any approval
}

// New returns a service that keeps its questions in a store. Until [Service.Set] it
// has the default settings, by which nobody may answer. The logger may be nil.
func New(s *store.Approvals, log *slog.Logger) *Service {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	d := &Service{store: s, log: log, changed: make(chan struct{})}
	d.Set(Options{})
	return d
}

// Set puts options in force. If other answers count now, the next equal call asks
// anew.
func (d *Service) Set(o Options) {
	decode.Fill(&o.Settings)
	d.settings.Store(&o)
}

var errNoService = errors.New("there is no approval service")

// details are the parts of a question for people that the store keeps as JSON.
type details struct {
	Tool      string     `json:"tool"`
	Server    string     `json:"server"`
	Issuer    string     `json:"issuer,omitempty"`
	Tenant    string     `json:"tenant"`
	Subject   string     `json:"subject"`
	Reasons   []string   `json:"reasons,omitempty"`
	By        [][]string `json:"by"`
	ArgsBytes int        `json:"args_bytes"`
	// ArgsMissing is how many bytes of the arguments are not shown.
	ArgsMissing int `json:"args_missing,omitempty"`
}

func key(q *gate.Question) store.ApprovalKey {
	return store.ApprovalKey{Principal: q.Identity.Key(), CapabilityID: q.CapabilityID, ArgsHash: q.ArgsHash}
}

// Ask returns the existing grant, denial or question for a call. If there is none, it
// asks a new question. A question that was asked under other conditions does not cover
// the call: Ask returns an error that says so. It returns [gate.ErrTooManyQuestions]
// when the caller has 64 open ones.
func (d *Service) Ask(ctx context.Context, q *gate.Question) (gate.Approval, error) {
	if d == nil || d.store == nil {
		return gate.Approval{}, errNoService
	}
	about, err := d.text(q)
	if err != nil {
		return gate.Approval{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	r, asked, err := d.store.Ask(ctx, key(q), about, time.Now().Add(d.settings.Load().Valid))
	switch {
	case errors.Is(err, store.ErrTooMany):
		return gate.Approval{}, fmt.Errorf("%w: %w", gate.ErrTooManyQuestions, err)
	case err != nil:
		return gate.Approval{}, err
	}
	item := itemOf(r)
	if asked {
		d.log.Info("a call waits for an approval", "approval", r.ID, "tool", q.Name, "caller", q.Identity)
		if tell := d.settings.Load().Asked; tell != nil {
			tell(item)
		}
	}
	if r.Details != about.Details {
		return d.changedConditions(ctx, r, q)
	}
	return item.approval(), nil
}

// Find returns the existing grant, denial or question for a call, and never asks one;
// ok is false where there is none, or where it was asked under other conditions.
func (d *Service) Find(ctx context.Context, q *gate.Question) (a gate.Approval, ok bool, err error) {
	if d == nil || d.store == nil {
		return gate.Approval{}, false, errNoService
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	r, found, err := d.store.Find(ctx, key(q))
	if err != nil || !found {
		return gate.Approval{}, false, err
	}
	item := itemOf(r)
	if !item.sameBy(d.by(q)) {
		return gate.Approval{}, false, nil
	}
	return item.approval(), true, nil
}

// changedConditions handles a question that was asked under other conditions: it is
// closed, so that the next call asks anew.
func (d *Service) changedConditions(ctx context.Context, r store.ApprovalRecord, q *gate.Question) (gate.Approval, error) {
	if item := itemOf(r); item.sameBy(d.by(q)) {
		return item.approval(), nil // only its description differs
	}
	if r.State == store.ApprovalDenied {
		if _, _, err := d.store.Retract(ctx, r.ID); err != nil {
			return gate.Approval{}, err
		}
	} else if r.State == store.ApprovalPending {
		by := store.Change{Actor: "toolgate", Reason: "the conditions of its approval have changed"}
		if _, _, err := d.store.Decide(ctx, r.ID, false, time.Time{}, by); err != nil {
			return gate.Approval{}, err
		}
	} else if _, _, err := d.store.Use(ctx, key(q)); err != nil {
		return gate.Approval{}, err
	}
	return gate.Approval{ID: r.ID, State: gate.ApprovalDenied, Reason: "the conditions of its approval have changed; make the call again"}, nil
}

// by returns those whose answer counts, for each demand.
func (d *Service) by(q *gate.Question) [][]string {
	all := make([][]string, len(q.Demands))
	for i, demand := range q.Demands {
		if all[i] = demand.By; demand.By == nil {
			all[i] = d.settings.Load().By
		}
		if all[i] == nil {
			all[i] = []string{}
		}
	}
	return all
}

// text describes a call for people.
func (d *Service) text(q *gate.Question) (store.ApprovalText, error) {
	if q == nil || q.Identity == nil || len(q.Demands) == 0 {
		return store.ApprovalText{}, errors.New("a question needs a caller and a demand")
	}
	about := details{
		Tool: shown(q.Name), Server: shown(q.Server),
		Issuer: shown(q.Identity.Issuer), Tenant: q.Identity.Tenant, Subject: shown(q.Identity.Subject),
		By: d.by(q), ArgsBytes: len(q.Args),
	}
	args := gate.Excerpted(q.Args, maxArguments)
	about.ArgsMissing = args.Missing
	for _, demand := range q.Demands {
		if demand.Reason != "" && len(about.Reasons) < maxReasons {
			about.Reasons = append(about.Reasons, shown(demand.Reason))
		}
	}
	raw, err := json.Marshal(about)
	if err != nil {
		return store.ApprovalText{}, fmt.Errorf("describe the call: %w", err)
	}
	return store.ApprovalText{Details: string(raw), Arguments: args.Text}, nil
}

// shown cuts foreign text to the length that people are shown.
func shown(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "..."
	}
	return text
}

// Await waits until a question is decided, and returns it. It waits no longer than the
// time that calls wait.
func (d *Service) Await(ctx context.Context, id string) (gate.Approval, error) {
	if d == nil || d.store == nil {
		return gate.Approval{}, errNoService
	}
	waited := time.NewTimer(d.settings.Load().Wait)
	defer waited.Stop()
	for {
		changed := d.nextChange()
		item, err := d.Get(ctx, id)
		if err != nil || item.State != string(gate.ApprovalPending) {
			return item.approval(), err
		}
		expired := time.NewTimer(time.Until(item.ExpiresAt) + time.Millisecond)
		select {
		case <-changed:
		case <-expired.C:
		case <-waited.C:
			expired.Stop()
			return item.approval(), nil
		case <-ctx.Done():
			expired.Stop()
			return gate.Approval{}, context.Cause(ctx)
		}
		expired.Stop()
	}
}

func (d *Service) nextChange() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// Changed tells the service that approvals have changed in the store. It does not
// block.
func (d *Service) Changed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.changed)
	d.changed = make(chan struct{})
}

// Use consumes the grant for a call and tells whether there was one. A grant from
// somebody who may no longer answer is consumed, but does not count.
func (d *Service) Use(ctx context.Context, q *gate.Question) (bool, error) {
	if d == nil || d.store == nil {
		return false, errNoService
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	r, ok, err := d.store.Use(ctx, key(q))
	item := itemOf(r)
	return ok && item.sameBy(d.by(q)), err
}

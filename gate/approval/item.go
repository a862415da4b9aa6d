package approval

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/store"
)

// Item is a question as people see it.
type Item struct {
	ID      string   `json:"id"`
	State   string   `json:"state"`
	Tool    string   `json:"tool"`
	Server  string   `json:"server"`
	Issuer  string   `json:"issuer,omitempty"`
	Tenant  string   `json:"tenant"`
	Subject string   `json:"subject"`
	Reasons []string `json:"reasons,omitempty"`
	// By lists those who may answer, for each demand.
	By [][]string `json:"by"`
	// Arguments are the arguments as shown to people, in at most 16 KiB, see
	// [gate.Excerpt], while the question or its grant can still be used. ArgsBytes is
	// their full length, ArgsMissing how many bytes of it are not shown. To approve a
	// call with missing bytes, ArgsHash must be named.
	ArgsMissing int       `json:"args_missing"`
	Arguments   string    `json:"arguments,omitempty"`
	ArgsBytes   int       `json:"args_bytes"`
	ArgsHash    string    `json:"args_hash"`
	AskedAt     time.Time `json:"asked_at"`
	ExpiresAt   time.Time `json:"expires_at"`
	DecidedBy   string    `json:"decided_by,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	DecidedAt   time.Time `json:"decided_at,omitzero"`
}

// itemOf converts a record. Nobody may answer a record whose details cannot be read.
func itemOf(r store.ApprovalRecord) Item {
	var about details
	if err := json.Unmarshal([]byte(r.Details), &about); err != nil {
		about = details{}
	}
	return Item{
		ID: r.ID, State: r.State, Tool: about.Tool, Server: about.Server,
		Issuer: about.Issuer, Tenant: about.Tenant, Subject: about.Subject, Reasons: about.Reasons, By: about.By,
		Arguments: r.Arguments, ArgsBytes: about.ArgsBytes, ArgsMissing: about.ArgsMissing, ArgsHash: r.ArgsHash,
		AskedAt: r.AskedAt, ExpiresAt: r.ExpiresAt, DecidedBy: r.DecidedBy, Reason: r.Reason, DecidedAt: r.DecidedAt,
	}
}

func (i *Item) approval() gate.Approval {
	return gate.Approval{ID: i.ID, State: gate.ApprovalState(i.State), By: i.By, Decider: i.DecidedBy, Reason: i.Reason, Until: i.ExpiresAt}
}

func (i *Item) may(is ...string) bool {
	a := i.approval()
	return a.May(is...)
}

func (i *Item) sameBy(by [][]string) bool {
	return slices.EqualFunc(i.By, by, slices.Equal)
}

// List returns the latest questions in a state, newest first, at most limit and 1,000.
// An empty state means all.
func (d *Service) List(ctx context.Context, state string, limit int) ([]Item, error) {
	if d == nil || d.store == nil {
		return nil, errNoService
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	records, err := d.store.List(ctx, state, limit)
	if err != nil {
		return nil, err
	}
	items := make([]Item, len(records))
	for i, r := range records {
		items[i] = itemOf(r)
	}
	return items, nil
}

// Get returns the question with an id; the error wraps [ErrUnknown] where there is
// none.
func (d *Service) Get(ctx context.Context, id string) (Item, error) {
	r, err := d.known(ctx, id)
	if err != nil {
		return Item{}, err
	}
	return itemOf(r), nil
}

package budget_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget"
)

type ledger struct {
	charged  map[string][]budget.Charge
	refunded []string
	err      error
}

func (l *ledger) Charge(_ context.Context, id string, charges []budget.Charge) error {
	if l.err == nil {
		l.charged[id] = charges
	}
	return l.err
}

func (l *ledger) Refund(_ context.Context, id string) error {
	l.refunded = append(l.refunded, id)
	return nil
}

func (l *ledger) Exact() bool { return true }

type perCall struct{}

func (perCall) Charges(u budget.Usage, now time.Time) []budget.Charge {
	return []budget.Charge{{Budget: "calls", Key: u.Principal, Amount: 1, Limit: 10, Start: now}}
}

func TestZeroLimiterRefuses(t *testing.T) {
	for name, l := range map[string]*budget.Limiter{"nil": nil, "zero": {}, "no store": budget.NewLimiter(nil, perCall{})} {
		if _, err := l.Charge(t.Context(), budget.Usage{}); !errors.Is(err, budget.ErrNoLimiter) {
			t.Errorf("%s: %v, want ErrNoLimiter", name, err)
		}
	}
}

func TestUnlimitedAllows(t *testing.T) {
	refund, err := budget.Unlimited().Charge(t.Context(), budget.Usage{})
	if err != nil {
		t.Fatal(err)
	}
	if err := refund(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLimiterChargesAndRefunds(t *testing.T) {
	store := &ledger{charged: map[string][]budget.Charge{}}
	l := budget.NewLimiter(store, perCall{})
	refund, err := l.Charge(t.Context(), budget.Usage{CallID: "c1", Principal: "p"})
	if err != nil {
		t.Fatal(err)
	}
	if got := store.charged["c1"]; len(got) != 1 || got[0].Key != "p" {
		t.Errorf("charged %+v", got)
	}
	if err := refund(t.Context()); err != nil || len(store.refunded) != 1 || store.refunded[0] != "c1" {
		t.Errorf("refunded %v, %v", store.refunded, err)
	}
	store.err = &budget.Refusal{Budget: "calls"}
	var refusal *budget.Refusal
	if _, err := l.Charge(t.Context(), budget.Usage{CallID: "c2"}); !errors.As(err, &refusal) {
		t.Errorf("%v, want a refusal", err)
	}
}

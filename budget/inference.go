package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Inference is what one inference of a model is about to use: a turn of an agent, or the
// answer to a server that asks for sampling.
//
// It is charged in tokens and cost, and in no other unit: it is no call, has no result of
// a server, and no server works on it. Budgets of its subject, persona, tenant and agent
// count it, and those of servers, tools and classes do not.
//
// An inference may be charged again, by any gateway, with the same Run, Turn, Begun and
// Keep: the second charge changes nothing and returns what was reserved by the first. So a
// gateway that takes over a run settles what the other one reserved.
type Inference struct {
	// Run is unique among all gateways, at most 240 bytes; Turn counts its inferences.
	Run  string
	Turn int
	// Begun is when the turn began, which decides its windows; zero stands for now. Keep
	// is for how long it may be charged again or settled.
	Begun time.Time
	Keep  time.Duration

	Issuer, Tenant, Subject string
	Persona                 string
	Plan                    string // of the credential; empty for none
	Agent                   string // that infers for the caller; empty for none
	// Name is the exposed name of the agent, for rules that match names; may be empty.
	Name string

	// Tokens is the most that the model may read and write, at least 1. Cost is the most
	// that this may cost, in cost units; 0 is not charged.
	Tokens, Cost int64
	// LeastTokens and LeastCost are with how much it can do if less is left. 0 stands for
	// all of it.
	LeastTokens, LeastCost int64
}

// inferencePrefix keeps runs apart from calls with the same id.
const inferencePrefix = "inference/"

// usage is the inference as a usage.
func (i *Inference) usage() *Usage {
	return &Usage{
		CallID: inferencePrefix + i.Run, Round: i.Turn, Time: i.Keep,
		Issuer: i.Issuer, Tenant: i.Tenant, Subject: i.Subject, Persona: i.Persona, Plan: i.Plan, Agent: i.Agent, Name: i.Name,
		Tokens: i.Tokens, Cost: i.Cost, leastTokens: i.LeastTokens, leastCost: i.LeastCost,
	}
}

var errInference = errors.New("an inference needs the name of its run, and at least one token")

// Infer charges an inference to all its budgets, or to none: what it may use is reserved.
// The receipt must be settled or refunded when the model has answered. Errors are those of
// [Limiter.Charge].
func (l *Limiter) Infer(ctx context.Context, i Inference) (*InferenceReceipt, error) {
	if i.Run == "" || i.Tokens < 1 {
		return nil, errInference
	}
	r, err := l.charge(ctx, i.usage(), i.Begun)
	if err != nil {
		return nil, err
	}
	return &InferenceReceipt{r}, nil
}

// InferenceReceipt is the charge for one inference. It belongs to one goroutine. The zero
// InferenceReceipt stands for an inference without a charge.
type InferenceReceipt struct{ r *Receipt }

// Charged reports whether anything was charged.
func (r *InferenceReceipt) Charged() bool { return r.r.Charged() }

// Tokens returns how many tokens the model may read and write; false means no limit.
func (r *InferenceReceipt) Tokens() (int64, bool) { return r.r.room(Tokens) }

// Cost returns what the inference may cost; false means no limit.
func (r *InferenceReceipt) Cost() (int64, bool) { return r.r.room(Cost) }

// Settle ends the charge of an inference that was made: what it did not use is given back,
// and what it used beyond that is charged, whatever the limits are. Call it or
// [InferenceReceipt.Refund] once; later calls do nothing. Another gateway may settle the
// inference again with the same usage, which changes nothing.
func (r *InferenceReceipt) Settle(ctx context.Context, tokens, cost int64) error {
	if !r.r.Charged() || r.r.done {
		return nil
	}
	by := spent{tokens: tokens, cost: cost}
	return errors.Join(r.r.settle(ctx, by), r.r.exceed(ctx, by))
}

// excessPrefix keeps what inferences used beyond their reservation apart from what was
// reserved.
const excessPrefix = "excess/"

// exceed charges what an inference used beyond its reservation, by a bill of its own. It is
// used already, so that no limit refuses it.
func (r *Receipt) exceed(ctx context.Context, by spent) error {
	over := &Receipt{limiter: r.limiter, inference: true, bill: r.bill}
	over.bill.Call, over.bill.Charges = excessPrefix+strings.TrimPrefix(r.bill.Call, inferencePrefix), nil
	for i := range r.balances {
		used := by.tokens
		if r.rules[i].Unit == Cost {
			used = by.cost
		}
		c := r.bill.Charges[i]
		if c.Least == 0 && r.balances[i].Taken != c.Amount {
			continue // it was reserved by rules that are no longer in force
		}
		c.Amount, c.Least = min(used-r.balances[i].Taken, MaxAmount), 0
		if c.Amount > 0 {
			over.bill.Charges, over.rules = append(over.bill.Charges, c), append(over.rules, r.rules[i])
		}
	}
	if len(over.bill.Charges) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	unbounded := over.bill
	unbounded.Charges = slices.Clone(unbounded.Charges)
	for i := range unbounded.Charges {
		unbounded.Charges[i].Limit = NoLimit
	}
	var err error
	if over.balances, err = r.limiter.store.Charge(ctx, unbounded); err != nil {
		return fmt.Errorf("charge what an inference used beyond its reservation: %w", err)
	}
	over.report()
	return nil
}

// Refund ends the charge of an inference that certainly was not made.
func (r *InferenceReceipt) Refund(ctx context.Context) error { return r.r.Refund(ctx) }

// Facts returns the charges of an inference with this usage, as far as it was reserved.
func (r *InferenceReceipt) Facts(tokens, cost int64) []Fact {
	return r.r.facts(spent{tokens: tokens, cost: cost})
}

// Warnings returns the budgets that are nearly used up after an inference with this usage.
func (r *InferenceReceipt) Warnings(tokens, cost int64) []Fact {
	return r.r.warnings(spent{tokens: tokens, cost: cost})
}

package agents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/native/agents"
)

// keepCharge is for how long the charge of an inference may be settled: a run goes on
// after a crash by then, or its charge stays as it was reserved.
const keepCharge = 24 * time.Hour

// Charges charges the inferences of an agent for a caller.
type Charges struct {
	// Limiter returns the limiter in force.
	Limiter func() *budget.Limiter
	Caller  *gate.Identity
	Agent   string
}

var _ agents.Budget = (*Charges)(nil)

func (c *Charges) inference(r *agents.Reservation) budget.Inference {
	id := c.Caller
	return budget.Inference{
		Run: r.Run, Turn: r.Seq, Begun: r.At, Keep: keepCharge, Issuer: id.Issuer, Tenant: id.Tenant, Subject: id.Subject, Persona: id.Persona, Plan: id.Plan,
		Agent: c.Agent, Name: agents.ServerKey + "__" + c.Agent, Tokens: r.Tokens, Cost: r.Cost,
	}
}

// Reserve implements [agents.Budget].
func (c *Charges) Reserve(ctx context.Context, r agents.Reservation) error {
	_, err := c.Limiter().Infer(ctx, c.inference(&r))
	if refusal, ok := errors.AsType[*budget.Refusal](err); ok {
		return &agents.Exhausted{Reason: told(refusal)}
	}
	return err
}

// told says for a caller which budget is used up.
func told(r *budget.Refusal) string {
	text := fmt.Sprintf("The budget %s is used up: %d of %d %s are used, and the next turn may need %d.", r.Budget, r.Used, r.Limit, r.Unit, r.Amount)
	if r.Hint != "" {
		text += fmt.Sprintf(" It resets at %s; %s.", r.ResetAt.UTC().Format(time.RFC3339), r.Hint)
	}
	return text
}

// Settle implements [agents.Budget].
func (c *Charges) Settle(ctx context.Context, reserved, used agents.Reservation) error {
	if time.Since(reserved.At) > keepCharge { // it would be charged once more
		return nil
	}
	receipt, err := c.Limiter().Infer(ctx, c.inference(&reserved)) // changes nothing where it is charged
	if err != nil {
		return err
	}
	if used.Tokens == 0 && used.Cost == 0 {
		return receipt.Refund(ctx)
	}
	return receipt.Settle(ctx, used.Tokens, used.Cost)
}

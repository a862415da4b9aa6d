package redis

import (
	"context"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/rate"
)

// ApplyTogether applies orders as one group.
func ApplyTogether(ctx context.Context, b *Budgets, orders []*budget.Order) error {
	return b.apply(ctx, orders)
}

// AskTogether asks about the row of a caller and for a token as one group.
func AskTogether(ctx context.Context, c *Client, caller string, token rate.Token) ([]error, error) {
	all := []*question{{op: "look", gateway: "g", call: rate.RowCall{Caller: caller}, most: 1}, {tokens: []rate.Token{token}}}
	err := c.calls.apply(ctx, all)
	return []error{all[0].err, all[1].err}, err
}

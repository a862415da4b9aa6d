package redis

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
)

// Rows are the rows of identical calls that gateways share, with the clock of the server.
// They implement [rate.Rows].
type Rows struct {
	*exchanges

	gateway string // of this process, random
}

// Rows returns the rows on the server.
func (c *Client) Rows() *Rows { return &Rows{c.calls, rand.Text()} }

// Begin implements [rate.Rows].
func (r *Rows) Begin(ctx context.Context, c rate.RowCall, most int, with *rate.Taking) (count int, wait time.Duration, err error) {
	tokens := with.Shared()
	if outOfRange(tokens) >= 0 {
		tokens = nil // whoever takes them is told
	}
	q := &question{op: "begin", gateway: r.gateway, call: c, most: most, tokens: tokens}
	if count, wait, err = r.ask(ctx, q); err == nil && count >= 0 && len(tokens) > 0 {
		with.Answer(q.refused, q.wait)
	}
	return count, wait, err
}

// Look implements [rate.Rows].
func (r *Rows) Look(ctx context.Context, c rate.RowCall, most int) (count int, wait time.Duration, err error) {
	return r.ask(ctx, &question{op: "look", gateway: r.gateway, call: c, most: most})
}

// End implements [rate.Rows].
func (r *Rows) End(ctx context.Context, c rate.RowCall) error {
	_, _, err := r.ask(ctx, &question{op: "end", gateway: r.gateway, call: c})
	return err
}

// ask asks about a row. Concurrent calls share an exchange with the server.
func (r *Rows) ask(ctx context.Context, q *question) (count int, wait time.Duration, err error) {
	if err := r.do(ctx, q); err != nil {
		return 0, 0, fmt.Errorf("count identical calls in Redis: %w", err)
	}
	return q.count, q.hold, nil
}

// rowKey is the Redis key of a caller's row. It is a hash, so that the server does not
// see who calls.
func rowKey(caller string) string {
	sum := sha256.Sum256([]byte("row:" + caller))
	return "toolgate:{rates}:row:" + hex.EncodeToString(sum[:16])
}

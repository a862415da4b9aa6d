package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
)

// Rates are buckets and sliding windows that gateways share, with the clock of the server. They
// implement [rate.Shared].
type Rates struct{ *exchanges }

// Rates returns the buckets on the server.
func (c *Client) Rates() *Rates { return &Rates{c.calls} }

// Take implements [rate.Shared]. It is one script, so that all gateways together never
// exceed a rate. Concurrent calls share an exchange with the server.
func (r *Rates) Take(ctx context.Context, tokens []rate.Token) (refused int, wait time.Duration, err error) {
	return r.ask(ctx, &question{tokens: tokens})
}

// Wait implements [rate.Shared].
func (r *Rates) Wait(ctx context.Context, tokens []rate.Token) (refused int, wait time.Duration, err error) {
	return r.ask(ctx, &question{tokens: tokens, look: true})
}

// ask asks about some buckets.
func (r *Rates) ask(ctx context.Context, q *question) (refused int, wait time.Duration, err error) {
	if i := outOfRange(q.tokens); i >= 0 {
		return i, 0, fmt.Errorf("the rate of %s is out of range", q.tokens[i].Bucket)
	}
	if err := r.do(ctx, q); err != nil {
		return 0, 0, fmt.Errorf("take from rates in Redis: %w", err)
	}
	return q.refused, q.wait, nil
}

// outOfRange returns the index of a token whose rate is out of range, -1 for none.
func outOfRange(tokens []rate.Token) int {
	for i := range tokens {
		if !tokens[i].Rate.Valid() {
			return i
		}
	}
	return -1
}

// bucketKey is the Redis key of a bucket or window. It hashes names and callers, because
// they may be long and should not be visible at the server.
func bucketKey(b bucket) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(len(b.name)) + ":" + b.name + b.key))
	space := "toolgate:{rates}:"
	if b.kind == rate.Sliding {
		space = "toolgate:{rates}:sliding:"
	}
	return space + hex.EncodeToString(sum[:16])
}

package redis

import (
	"context"
	"crypto/sha256"
	_ "embed" // the scripts
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/toolgate/toolgate/budget/rate"
)

//go:embed take.lua
var takeText string

var takeScript = goredis.NewScript(takeText)

// Rates are buckets and sliding windows that gateways share, with the clock of the server. They
// implement [rate.Shared].
type Rates struct{ *exchanges }

// Rates returns the buckets on the server.
func (c *Client) Rates() *Rates { return &Rates{c.calls} }

// Take implements [rate.Shared]. It is one script, so that all gateways together never
// exceed a rate. Concurrent calls share an exchange with the server.
func (r *Rates) Take(ctx context.Context, tokens []rate.Token) (refused int, wait time.Duration, err error) {
	return r.ask(ctx, tokens)
}

// Wait implements [rate.Shared].
func (r *Rates) Wait(ctx context.Context, tokens []rate.Token) (refused int, wait time.Duration, err error) {
	return r.ask(ctx, tokens, "look")
}

// ask runs the script for some buckets.
func (r *Rates) ask(ctx context.Context, tokens []rate.Token, more ...any) (refused int, wait time.Duration, err error) {
	t := &evaluation{script: takeScript, keys: make([]string, len(tokens)), args: make([]any, 0, 3*len(tokens)+len(more))}
	for i := range tokens {
		if !tokens[i].Rate.Valid() {
			return i, 0, fmt.Errorf("the rate of %s is out of range", tokens[i].Bucket)
		}
		t.keys[i] = bucketKey(&tokens[i])
		if r := tokens[i].Rate; r.Kind == rate.Sliding {
			t.args = append(t.args, string(rate.Sliding), r.Limit, r.Window.Microseconds())
		} else {
			t.args = append(t.args, string(rate.Bucket), r.Interval(), r.Burst())
		}
	}
	t.args = append(t.args, more...)
	if err := r.do(ctx, t); err != nil {
		return 0, 0, fmt.Errorf("take from rates in Redis: %w", err)
	}
	got, err := t.answer.Int64Slice()
	if err != nil {
		return 0, 0, fmt.Errorf("take from rates in Redis: %w", err)
	}
	if len(got) != 2 || got[0] < 0 || got[0] > int64(len(tokens)) {
		return 0, 0, fmt.Errorf("take from rates in Redis: %v is no answer", got)
	}
	return int(got[0]) - 1, time.Duration(got[1]) * time.Microsecond, nil
}

// bucketKey is the Redis key of a bucket or window. It hashes names and callers, because
// they may be long and should not be visible at the server.
func bucketKey(t *rate.Token) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(len(t.Bucket)) + ":" + t.Bucket + t.Key))
	space := "toolgate:{rates}:"
	if t.Rate.Kind == rate.Sliding {
		space = "toolgate:{rates}:sliding:"
	}
	return space + hex.EncodeToString(sum[:16])
}

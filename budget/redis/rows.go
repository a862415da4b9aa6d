package redis

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // the script
	"encoding/hex"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/toolgate/toolgate/budget/rate"
)

//go:embed row.lua
var rowText string

var rowScript = goredis.NewScript(rowText)

// Rows are the rows of identical calls that gateways share, with the clock of the server.
// They implement [rate.Rows].
type Rows struct {
	*exchanges

	gateway string // of this process, random
}

// Rows returns the rows on the server.
func (c *Client) Rows() *Rows { return &Rows{c.calls, rand.Text()} }

// Begin implements [rate.Rows].
func (r *Rows) Begin(ctx context.Context, c rate.RowCall, most int) (count int, wait time.Duration, err error) {
	return r.ask(ctx, "begin", c, most)
}

// Look implements [rate.Rows].
func (r *Rows) Look(ctx context.Context, c rate.RowCall, most int) (count int, wait time.Duration, err error) {
	return r.ask(ctx, "look", c, most)
}

// End implements [rate.Rows].
func (r *Rows) End(ctx context.Context, c rate.RowCall) error {
	_, _, err := r.ask(ctx, "end", c, 0)
	return err
}

// ask runs the script. Concurrent calls share an exchange with the server.
func (r *Rows) ask(ctx context.Context, op string, c rate.RowCall, most int) (count int, wait time.Duration, err error) {
	e := &evaluation{
		script: rowScript, keys: []string{rowKey(c.Caller)},
		args: []any{op, r.gateway, hex.EncodeToString(c.Call[:16]), most, rate.RowPause.Microseconds(), rate.RowHold.Microseconds(), rate.RowLease.Microseconds()},
	}
	if err := r.do(ctx, e); err != nil {
		return 0, 0, fmt.Errorf("count identical calls in Redis: %w", err)
	}
	got, err := e.answer.Int64Slice()
	if err != nil {
		return 0, 0, fmt.Errorf("count identical calls in Redis: %w", err)
	}
	if len(got) != 2 || got[0] < -1 {
		return 0, 0, fmt.Errorf("count identical calls in Redis: %v is no answer", got)
	}
	return int(got[0]), time.Duration(got[1]) * time.Microsecond, nil
}

// rowKey is the Redis key of a caller's row. It is a hash, so that the server does not
// see who calls.
func rowKey(caller string) string {
	sum := sha256.Sum256([]byte("row:" + caller))
	return "toolgate:{rates}:row:" + hex.EncodeToString(sum[:16])
}

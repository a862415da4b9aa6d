package redis

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/internal/batch"
)

const (
	// checkPause is how long a check that the server does not evict is valid.
	checkPause = 30 * time.Second
	// maxGroup bounds the charges of one exchange with the server.
	maxGroup = 256
	// minBillMemory is how long a bill is remembered at least.
	minBillMemory = time.Minute

	epochKey = "toolgate:{budgets}:epoch"
	indexKey = "toolgate:{budgets}:counters"
)

// Epochs stores the epoch of the counters outside of Redis, so that a Redis that has
// lost them is recognised.
type Epochs interface {
	// Known returns the epoch stored last, empty for none.
	Known(ctx context.Context) (string, error)
	Remember(ctx context.Context, epoch string) error
}

// ErrEvicts means that the server may drop counters to make room.
var ErrEvicts = errors.New("the Redis server may evict what was used; set its maxmemory-policy to noeviction")

// Budgets is a [budget.Store] in Redis. It is not exact: a failover may lose the last
// charges. When all counters are lost, it denies until [Budgets.Rebuild]. It is safe
// for concurrent use.
type Budgets struct {
	rdb    goredis.UniversalClient
	time   time.Duration // bounds one operation
	epochs Epochs

	group batch.Group[*budget.Order]
	names names // used only by the leader of a group

	mu      sync.Mutex
	epoch   string    // empty until it is known
	checked time.Time // when the server last reported that it does not evict
}

// Budgets returns the store. It reads its epoch at the first use.
func (c *Client) Budgets(epochs Epochs) *Budgets {
	b := &Budgets{rdb: c.rdb, time: c.timeouts.Budgets, epochs: epochs, names: names{make(memo[budget.Counter, *name])}}
	b.group.Init(b.apply, (*budget.Order).Weight, maxGroup, 0, b.time)
	return b
}

var _ budget.Rebuilder = (*Budgets)(nil)

// Exact implements [budget.Store]; it returns false.
func (b *Budgets) Exact() bool { return false }

// Charge implements [budget.Store].
func (b *Budgets) Charge(ctx context.Context, bill budget.Bill) ([]budget.Balance, error) {
	if err := checkBill(&bill); err != nil {
		return nil, err
	}
	o := &budget.Order{Bill: &bill}
	if err := b.do(ctx, o); err != nil {
		return nil, fmt.Errorf("charge budgets in Redis: %w", err)
	}
	return o.Balances, nil
}

// Settle implements [budget.Store].
func (b *Budgets) Settle(ctx context.Context, bill budget.Bill, used []int64) error {
	if err := checkBill(&bill); err != nil {
		return err
	}
	if used != nil && len(used) != len(bill.Charges) {
		return fmt.Errorf("settle budgets in Redis: %d amounts of %d charges", len(used), len(bill.Charges))
	}
	if used == nil {
		used = make([]int64, len(bill.Charges))
	}
	if err := b.do(ctx, &budget.Order{Bill: &bill, Settle: true, Used: used}); err != nil {
		return fmt.Errorf("settle budgets in Redis: %w", err)
	}
	return nil
}

// do executes an order, together with concurrent ones.
func (b *Budgets) do(ctx context.Context, o *budget.Order) error {
	if err := b.group.Do(ctx, o); err != nil {
		return err
	}
	return o.Err
}

// run runs a script with the current epoch as its first argument. Once it is sent, it
// runs until its own timeout, even if ctx ends.
func (b *Budgets) run(ctx context.Context, script *goredis.Script, keys []string, args []any) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.time)
	defer cancel()
	for again := range 2 {
		epoch, err := b.inForce(ctx, again > 0)
		if err != nil {
			return nil, err
		}
		args[0] = epoch
		got, err := script.Run(ctx, b.rdb, keys, args...).Slice()
		if err != nil {
			return nil, err
		}
		if len(got) > 0 && got[0] == "lost" {
			continue // another gateway with the same epoch may have rebuilt
		}
		return got, nil
	}
	return nil, budget.ErrLost
}

// inForce returns the current epoch. The first gateway creates it.
func (b *Budgets) inForce(ctx context.Context, anew bool) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.checked) > checkPause {
		if err := b.checkEviction(ctx); err != nil {
			return "", err
		}
		b.checked = time.Now()
	}
	if b.epoch != "" && !anew {
		return b.epoch, nil
	}
	known, err := b.epochs.Known(ctx)
	if err != nil {
		return "", fmt.Errorf("the epoch of the budgets: %w", err)
	}
	if known == "" {
		if known, err = b.begin(ctx); err != nil {
			return "", err
		}
	}
	b.epoch = known
	return known, nil
}

// begin creates an epoch unless there is one, and stores it; mu is held.
func (b *Budgets) begin(ctx context.Context) (string, error) {
	// An existing one wins, also when others begin at the same time.
	if err := b.rdb.SetArgs(ctx, epochKey, rand.Text(), goredis.SetArgs{Mode: "NX"}).Err(); err != nil && !errors.Is(err, goredis.Nil) {
		return "", fmt.Errorf("begin an epoch of budgets: %w", err)
	}
	epoch, err := b.rdb.Get(ctx, epochKey).Result()
	if err != nil {
		return "", fmt.Errorf("begin an epoch of budgets: %w", err)
	}
	if err := b.epochs.Remember(ctx, epoch); err != nil {
		return "", fmt.Errorf("remember the epoch of budgets: %w", err)
	}
	return epoch, nil
}

// Rebuild implements [budget.Rebuilder]. It adopts the existing counters of any epoch.
func (b *Budgets) Rebuild(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.time)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.checkEviction(ctx); err != nil {
		return err
	}
	epoch, err := b.begin(ctx)
	if err != nil {
		return err
	}
	b.epoch, b.checked = epoch, time.Now()
	return nil
}

// checkEviction returns [ErrEvicts] when the server drops keys when it is full: dropped
// usage would be free again.
func (b *Budgets) checkEviction(ctx context.Context) error {
	info, err := b.rdb.Info(ctx, "memory").Result()
	if err != nil {
		return fmt.Errorf("ask whether Redis evicts: %w", err)
	}
	limit, policy := "", ""
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "maxmemory":
			limit = value
		case "maxmemory_policy":
			policy = value
		}
	}
	if limit != "0" && policy != "noeviction" {
		return ErrEvicts
	}
	return nil
}

// checkBill validates a bill. Names must be text without NUL, which separates the parts
// of keys.
func checkBill(bill *budget.Bill) error {
	if err := bill.Check(); err != nil {
		return err
	}
	for i := range bill.Charges {
		if c := &bill.Charges[i]; strings.ContainsRune(c.Budget, 0) || strings.ContainsRune(c.Measure, 0) {
			return fmt.Errorf("charge %d: a name has a NUL character", i)
		}
	}
	return nil
}

// kept is how long a window is kept after its end, in case the clock is set back: hours
// for two days, days for two months, months for four hundred days.
func kept(window time.Duration) time.Duration {
	const day = 24 * time.Hour
	switch {
	case window <= 12*time.Hour:
		return 2 * day
	case window <= 8*day:
		return 60 * day
	default:
		return 400 * day
	}
}

// remembered is how long a bill is remembered, in milliseconds.
func remembered(bill *budget.Bill) int64 {
	return max(bill.Until.Sub(bill.At), minBillMemory).Milliseconds()
}

// memberOf returns the index entry of a counter: its names, its key and their hash,
// which is part of its Redis keys.
func memberOf(c *budget.Counter) string {
	text := c.Budget + "\x00" + c.Measure + "\x00" + c.Key
	sum := sha256.Sum256([]byte(text))
	return text + "\x00" + hex.EncodeToString(sum[:hashBytes])
}

// hashBytes is the length of the hash in a Redis key.
const hashBytes = 16

// counterOf is the inverse of memberOf.
func counterOf(member string) (c budget.Counter, ok bool) {
	if len(member) < 2*hashBytes+1 {
		return c, false
	}
	parts := strings.SplitN(member[:len(member)-2*hashBytes-1], "\x00", 3)
	if len(parts) != 3 {
		return c, false
	}
	return budget.Counter{Budget: parts[0], Measure: parts[1], Key: parts[2]}, true
}

func windowsKey(member string) string {
	return "toolgate:{budgets}:w:" + member[len(member)-2*hashBytes:]
}

func amountsKey(member string) string {
	return "toolgate:{budgets}:a:" + member[len(member)-2*hashBytes:]
}

// billKey is the Redis key of a bill. A call id may be any text.
func billKey(k budget.Key) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(k.Round) + ":" + k.Call))
	return "toolgate:{budgets}:b:" + hex.EncodeToString(sum[:hashBytes])
}

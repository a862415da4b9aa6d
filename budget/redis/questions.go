package redis

import (
	"context"
	_ "embed" // the script
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/internal/batch"
)

//go:embed questions.lua
var questionsText string

var questionsScript = goredis.NewScript(questionsText)

// question is what a call asks of its row, of rates, or of both.
type question struct {
	op      string // of the row: begin, look or end; empty for none
	gateway string
	call    rate.RowCall
	most    int
	tokens  []rate.Token
	look    bool // takes no tokens

	count   int // of the row; -1 for a call that is refused
	hold    time.Duration
	refused int // index of the token with the longest wait; -1 for none
	wait    time.Duration
	err     error
}

func (q *question) weight() int { return 1 + len(q.tokens) }

// exchanges are questions of many callers. Those that come at the same time are one script.
type exchanges struct {
	rdb   goredis.UniversalClient
	time  time.Duration // bounds one operation
	group batch.Group[*question]

	// Redis keys, which take longer to make than most of a question. Only the leader of a
	// group uses them.
	rows    memo[string, string]
	buckets memo[bucket, string]
}

// bucket is what the key of a bucket or window is made of.
type bucket struct {
	name, key string
	kind      rate.Kind
}

func newExchanges(rdb goredis.UniversalClient, within time.Duration) *exchanges {
	x := &exchanges{rdb: rdb, time: within, rows: make(memo[string, string]), buckets: make(memo[bucket, string])}
	x.group.Init(x.apply, (*question).weight, maxGroup, 0, within)
	return x
}

// do asks a question.
func (x *exchanges) do(ctx context.Context, q *question) error {
	if err := x.group.Do(ctx, q); err != nil {
		return err
	}
	return q.err
}

// apply asks questions in one exchange. Each has its own error.
func (x *exchanges) apply(ctx context.Context, all []*question) error {
	ctx, cancel := context.WithTimeout(ctx, x.time)
	defer cancel()
	e := x.script(all)
	evaluate(ctx, x.rdb, []*evaluation{e})
	text, err := e.answer.Text()
	if err != nil {
		return err
	}
	if n := strings.Count(text, "\n") + 1; n != len(all) {
		return fmt.Errorf("the server answered %d lines to %d questions", n, len(all))
	}
	for _, q := range all {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		q.err = q.take(line)
	}
	return nil
}

// script builds the call of the script.
func (x *exchanges) script(all []*question) *evaluation {
	keys := make([]string, 0, 3*len(all))
	args := make([]any, 0, 3+len(all))
	args = append(args, rate.RowPause.Microseconds(), rate.RowHold.Microseconds(), rate.RowLease.Microseconds())
	var few [256]byte
	for _, q := range all {
		text := few[:0]
		if q.op == "" {
			text = append(text, '-')
		} else {
			keys = append(keys, x.rows.of(q.call.Caller, rowKey))
			text = append(append(append(append(text, q.op...), ' '), q.gateway...), ' ')
			text = strconv.AppendInt(append(hex.AppendEncode(text, q.call.Call[:16]), ' '), int64(q.most), 10)
		}
		if q.look {
			text = append(text, " look"...)
		} else {
			text = append(text, " take"...)
		}
		for i := range q.tokens {
			t := &q.tokens[i]
			keys = append(keys, x.buckets.of(bucket{t.Bucket, t.Key, t.Rate.Kind}, bucketKey))
			if t.Rate.Kind == rate.Sliding {
				text = two(append(text, " sliding"...), t.Rate.Limit, t.Rate.Window.Microseconds())
			} else {
				text = two(append(text, " bucket"...), t.Rate.Interval(), t.Rate.Burst())
			}
		}
		args = append(args, string(text))
	}
	return &evaluation{script: questionsScript, keys: keys, args: args}
}

// two appends two numbers, each after a space.
func two(text []byte, a, b int64) []byte {
	text = strconv.AppendInt(append(text, ' '), a, 10)
	return strconv.AppendInt(append(text, ' '), b, 10)
}

// take reads the answer to a question.
func (q *question) take(line string) error {
	if why, failed := strings.CutPrefix(line, "failed "); failed {
		return errors.New(why)
	}
	var n [4]int64
	if !numbers(line, n[:]) || n[0] < -1 || n[2] < 0 || n[2] > int64(len(q.tokens)) {
		return fmt.Errorf("%.200q is no answer", line)
	}
	q.count, q.hold = int(n[0]), time.Duration(n[1])*time.Microsecond
	q.refused, q.wait = int(n[2])-1, time.Duration(n[3])*time.Microsecond
	return nil
}

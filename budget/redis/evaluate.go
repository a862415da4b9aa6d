package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/toolgate/toolgate/internal/batch"
)

// exchanges are script calls of many callers. Those that come at the same time share an exchange
// with the server.
type exchanges struct {
	rdb   goredis.UniversalClient
	time  time.Duration // bounds one operation
	group batch.Group[*evaluation]
}

func newExchanges(rdb goredis.UniversalClient, within time.Duration) *exchanges {
	x := &exchanges{rdb: rdb, time: within}
	x.group.Init(x.apply, func(e *evaluation) int { return len(e.keys) }, maxGroup, 0, within)
	return x
}

// do runs a script call. Its answer may be an error of its own.
func (x *exchanges) do(ctx context.Context, e *evaluation) error { return x.group.Do(ctx, e) }

func (x *exchanges) apply(ctx context.Context, all []*evaluation) error {
	ctx, cancel := context.WithTimeout(ctx, x.time)
	defer cancel()
	evaluate(ctx, x.rdb, all)
	return nil
}

// evaluation is one script call and its answer.
type evaluation struct {
	script *goredis.Script
	keys   []string
	args   []any
	answer *goredis.Cmd
}

// evaluate runs script calls in one exchange, and those with scripts that the server
// does not know in a second one. Each has its own error.
func evaluate(ctx context.Context, rdb goredis.UniversalClient, all []*evaluation) {
	pipe := rdb.Pipeline()
	for _, e := range all {
		e.answer = e.script.EvalSha(ctx, pipe, e.keys, e.args...)
	}
	_, _ = pipe.Exec(ctx)
	unknown := false
	for _, e := range all {
		if goredis.HasErrorPrefix(e.answer.Err(), "NOSCRIPT") {
			e.answer = e.script.Eval(ctx, pipe, e.keys, e.args...)
			unknown = true
		}
	}
	if unknown {
		_, _ = pipe.Exec(ctx)
	}
}

package redis

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

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

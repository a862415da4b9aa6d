package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

const (
	// maxEverything is what a call with everything on may cost, in those of the
	// reverse proxy, with a store that keeps every charge, and maxEverythingBounded
	// with one that may lose the last.
	maxEverything, maxEverythingBounded = 1.7, 1.4
	// everythingToken is the key of the callers.
	everythingToken = "bench-key-0"
)

// with returns settings and others over them.
func with(all ...map[string]any) map[string]any {
	out := make(map[string]any)
	for _, one := range all {
		maps.Copy(out, one)
	}
	return out
}

// ruled are rules that let every call pass: by its class, its size, its text and the operating
// mode, after asking whether it needs an approval.
func ruled() map[string]any {
	return map[string]any{
		"approvals": map[string]any{"require": "unsafe_only"},
		"governance": map[string]any{"tools": map[string]any{
			"s0__*": map[string]any{"class": "write", "risk": "medium", "requires_approval_in_modes": []string{"ALERT"}},
			"s0__echo": map[string]any{
				"class": "write", "risk": "medium", "max_bytes": "1MB",
				"patterns": []map[string]any{{"in": []string{"/text"}, "deny": "(?i)password"}},
			},
		}},
	}
}

// planned are a plan of everybody's tenant, besides what there is.
func planned() map[string]any {
	return map[string]any{
		"plans":   map[string]any{"team": map[string]any{"tool_calls": 1_000_000_000}},
		"tenants": map[string]any{"*": map[string]any{"plan": "team"}},
	}
}

// features are toolgates as a user gets them, of which each has what the one before has and one
// thing more: up to everything with SQLite FULL. What a request is held against in any toolgate
// (the schema of its tool, the breaker of its server, the pins, the limits) is in the first
// already: there is no setting without. instead are toolgates with everything in which one thing
// is another, and the limit of each.
func (r *room) features(told map[string]any, m mounts, jwt map[string]any, token string) (list, instead []variant, limits []float64, err error) {
	policy, err := defaultPolicy()
	if err != nil {
		return nil, nil, nil, err
	}
	gate, err := (&gated{policy: policy}).settings(r.dir, m, []string{everythingToken})
	if err != nil {
		return nil, nil, nil, err
	}
	keys := map[string]any{"auth": gate["auth"], "gate": map[string]any{"open": true}}
	rated := with(told, gate, twoRates())
	full := with(rated, ruled(), budgeted("full", 1))
	list = []variant{
		{name: "the path, schemas and breaker", less: keepsNothing},
		{name: "audit, metrics, log, 1 % of traces", less: keepsNoExecutions, extra: told},
		{name: "the execution log", extra: told},
		{name: "API key", extra: with(told, keys), token: everythingToken},
		{name: "capsules, SpiceDB (built in) and policy", extra: with(told, gate), token: everythingToken},
		{name: "rates", extra: rated, token: everythingToken},
		{name: "rules for arguments, mode and approval", extra: with(rated, ruled()), token: everythingToken},
		{name: "a budget, SQLite FULL", extra: full, token: everythingToken},
	}
	instead = []variant{
		{name: "SQLite NORMAL", extra: with(full, budgeted("normal", 1)), token: everythingToken},
		{name: "SQLite FULL, a JWT in place of the key", extra: with(full, jwt), token: token},
		{name: "SQLite FULL, a plan besides", extra: with(full, planned()), token: everythingToken},
	}
	return list, instead, []float64{maxEverythingBounded, maxEverything, maxEverything}, nil
}

// benchEverything compares the cost of an echo with everything on with that of
// the reverse proxy, and tells what each thing adds.
func benchEverything(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	r.defaults = true
	s := setting{"modern", "json"}
	up, err := r.lightServers(s, 1)
	if err != nil {
		return nil, err
	}
	spans, end, err := collect(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	tokens := &gated{}
	if tokens.policy, err = defaultPolicy(); err != nil {
		return nil, err
	}
	stop, err := r.issue(ctx, tokens)
	if err != nil {
		return nil, err
	}
	defer stop()
	token := r.token
	servers := up.mounts(1)
	jwt, err := tokens.settings(r.dir, servers, nil)
	if err != nil {
		return nil, err
	}
	list, instead, limits, err := r.features(spans.telling(), servers, jwt, token)
	if err != nil {
		return nil, err
	}
	address, err := r.redis()
	if err != nil {
		return nil, err
	}
	if address != "" {
		full := list[len(list)-1].extra
		instead = slices.Insert(instead, 1, variant{
			name: onRedis, token: everythingToken,
			extra: with(full, map[string]any{"redis": address, "budgets_in": "redis"}),
		})
		limits = slices.Insert(limits, 1, maxEverythingBounded)
	}
	r.token = ""
	plain, err := r.serve("reverse", "-to", up.urls[0])
	if err != nil {
		return nil, err
	}
	reverse, err := r.enrollLight(plain, s.era, "", n.warm)
	if err != nil {
		return nil, err
	}
	all := []*contestant{reverse}
	for _, v := range append(list, instead...) {
		r.extra, r.less, r.token = v.extra, v.less, v.token
		c, err := r.lightGateway(servers, s.era, lightPrefixes(1), n.warm)
		if err != nil {
			return nil, fmt.Errorf("with %s: %w", v.name, err)
		}
		if v.name == onRedis {
			c.beside = []int{r.redisPid}
		}
		all = append(all, c)
	}
	if err := inTurn(ctx, n, order{Do: "echo", Light: true}, all...); err != nil {
		return nil, err
	}
	return everythingRows(ctx, n, all, list, instead, limits)
}

const onRedis = "Redis"

// everythingRows are the lines of toolgates of which the first is the reverse proxy.
func everythingRows(ctx context.Context, n *counts, all []*contestant, list, instead []variant, limits []float64) ([]row, error) {
	reverse, parts, others := all[0], all[1:len(list)+1], all[len(list)+1:]
	whole := parts[len(parts)-1]
	line := func(name string, c *contestant, limit float64) row {
		ratio := c.cpu.per(reverse.cpu).median()
		return row{
			name: name, reverse: reverse.cpu.both("µs"), toolgate: c.cpu.both("µs"), ratio: short(ratio), alloc: short(c.perCall()),
		}.judged(ratio, limit, "")
	}
	rows := []row{line(fmt.Sprintf("everything, %d sessions, SQLite FULL", clients), whole, maxEverything)}
	for i, c := range others {
		rows = append(rows, line("- "+instead[i].name, c, limits[i]))
		if c.beside != nil {
			rows = append(rows, row{name: "- beside it, the server of Redis", toolgate: c.others.both("µs")})
		}
	}
	some := *n
	some.turns = max(1, n.turns/4)
	half, err := halfLoad(ctx, &some, 0, reverse, whole, others[0])
	if err != nil {
		return nil, err
	}
	half[0].name += ", SQLite FULL"
	half[1].name += ", " + instead[0].name
	rows = append(rows, half...)
	for i, c := range parts {
		one := row{name: "- of it: " + list[i].name, reverse: "-", toolgate: c.cpu.both("µs"), alloc: short(c.perCall())}
		if i > 0 {
			one.toolgate = c.cpu.minus(parts[i-1].cpu).both("µs")
			one.alloc = short(c.perCall() - parts[i-1].perCall())
		}
		rows = append(rows, one)
	}
	return rows, nil
}

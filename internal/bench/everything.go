package main

import (
	"context"
	"fmt"
	"maps"
)

const (
	// maxEverything is what a call with everything on may cost, in those of the
	// reverse proxy, with a store that keeps every charge, and maxEverythingBounded
	// with one that may lose the last.
	maxEverything, maxEverythingBounded = 2.5, 2.0
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

// features are toolgates of which each has what the one before has and one thing
// more: the last but those behind whole is everything with SQLite FULL. What a
// request is held against in any toolgate (the schema of its tool, the breaker of
// its server, the pins) is in the first already: there is no setting without.
func (r *room) features(spans *collector, m mounts) (list []variant, whole int, err error) {
	policy, err := defaultPolicy()
	if err != nil {
		return nil, 0, err
	}
	gate, err := (&gated{policy: policy}).settings(r.dir, m, []string{everythingToken})
	if err != nil {
		return nil, 0, err
	}
	keys := map[string]any{"auth": gate["auth"], "gate": map[string]any{"open": true}}
	told := spans.telling()
	full := with(told, gate, paced(), budgeted("full", 1))
	list = []variant{
		{name: "the path, schemas and breaker", less: keepsNothing},
		{name: "audit, metrics, log, 1 % of traces", less: keepsNoExecutions, extra: told},
		{name: "the execution log", extra: told},
		{name: "API key", extra: with(told, keys), token: everythingToken},
		{name: "capsules, SpiceDB (built in) and policy", extra: with(told, gate), token: everythingToken},
		{name: "rates and the guard against loops", extra: with(told, gate, paced()), token: everythingToken},
		{name: "a budget, SQLite FULL", extra: full, token: everythingToken},
	}
	whole = len(list) - 1
	list = append(list, variant{name: "SQLite NORMAL", extra: with(full, budgeted("normal", 1)), token: everythingToken})
	address, err := r.redis()
	if err != nil {
		return nil, 0, err
	}
	if address != "" {
		list = append(list, variant{
			name: "Redis", token: everythingToken,
			extra: with(full, map[string]any{"redis": address, "budgets_in": "redis"}),
		})
	}
	return list, whole, nil
}

// benchEverything compares the cost of an echo with everything on with that of
// the reverse proxy, and tells what each thing adds.
func benchEverything(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"modern", "json"}
	up, err := r.fastUpstream(s)
	if err != nil {
		return nil, err
	}
	spans, end, err := collect(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	plain, err := r.serve("reverse", "-to", up.url)
	if err != nil {
		return nil, err
	}
	servers := mounts{"fast": up.url + "/mcp"}
	list, whole, err := r.features(spans, servers)
	if err != nil {
		return nil, err
	}
	reverse, err := r.enroll(plain, s.era, n.warm)
	if err != nil {
		return nil, err
	}
	all := []*contestant{reverse}
	for i := range list {
		c, err := r.contest(&list[i], servers, s.era, n.warm)
		if err != nil {
			return nil, fmt.Errorf("with %s: %w", list[i].name, err)
		}
		all = append(all, c)
	}
	if err := inTurn(ctx, n, order{Do: "echo"}, all...); err != nil {
		return nil, err
	}
	line := func(name string, c *contestant, limit float64) row {
		ratio := c.cpu.per(reverse.cpu)
		return row{
			name: name, reverse: reverse.cpu.both("µs"), toolgate: c.cpu.both("µs"), ratio: short(ratio.median()),
			limit: fmt.Sprint(limit), alloc: short(c.perCall()), verdict: within(ratio.median(), limit),
		}
	}
	all = all[1:]
	rows := []row{line(fmt.Sprintf("everything, %d sessions, SQLite FULL", clients), all[whole], maxEverything)}
	for i, c := range all[whole+1:] {
		rows = append(rows, line("- "+list[whole+1+i].name, c, maxEverythingBounded))
	}
	for i, c := range all {
		one := row{name: "- of it: " + list[i].name, reverse: "-", toolgate: c.cpu.both("µs"), alloc: short(c.perCall())}
		switch {
		case i > whole: // beside a budget in SQLite FULL, not on top of it
			one.name = "- a budget, " + list[i].name + ", in its place"
			one.toolgate = c.cpu.minus(all[whole-1].cpu).both("µs")
			one.alloc = short(c.perCall() - all[whole-1].perCall())
		case i > 0:
			one.toolgate = c.cpu.minus(all[i-1].cpu).both("µs")
			one.alloc = short(c.perCall() - all[i-1].perCall())
		}
		rows = append(rows, one)
	}
	return rows, nil
}

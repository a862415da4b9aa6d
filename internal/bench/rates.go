package main

import (
	"context"
	"fmt"
	"maps"
)

// maxPaced is what a call may cost more with two rates, the guard against
// repeated calls and the bound of a caller's calls, in µs.
const maxPaced = 10.0

// paced are settings in which every limit of how often is asked and none is
// reached.
func paced() map[string]any {
	limits := wide()
	maps.Copy(limits, map[string]any{
		"identical_calls": 1_000_000, "calls_per_principal": 2000,
		"lists_per_minute": 1_000_000, "initializes_per_minute": 1_000_000, "notifications_per_minute": 1_000_000,
	})
	return with(twoRates(), map[string]any{"limits": limits})
}

// twoRates are settings of two rates that no load reaches.
func twoRates() map[string]any {
	return map[string]any{"rates": []map[string]any{
		{"per": "principal", "limit": 1_000_000, "window": "1s"},
		{"per": []string{"tenant", "tool"}, "match": "*", "limit": 1_000_000, "window": "1s"},
	}}
}

// benchRates compares the cost of an echo with rates with that of one without.
func benchRates(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"modern", "json"}
	up, err := r.fastUpstream(s)
	if err != nil {
		return nil, err
	}
	servers := mounts{"fast": up.url + "/mcp"}
	var contestants [2]*contestant
	for i, extra := range []map[string]any{nil, paced()} {
		if contestants[i], err = r.contest(&variant{extra: extra}, servers, s.era, n.warm); err != nil {
			return nil, err
		}
	}
	a, b := contestants[0], contestants[1]
	if err := inTurn(ctx, n, order{Do: "echo"}, a, b); err != nil {
		return nil, err
	}
	more := b.cpu.minus(a.cpu)
	return []row{{
		name: "two rates and the guard against loops: more than without", reverse: "-", toolgate: more.both("µs"),
		limit: fmt.Sprintf("%v µs", maxPaced), alloc: short((b.allocated/float64(b.calls) - a.allocated/float64(a.calls)) / 1024),
		verdict: within(more.median(), maxPaced),
	}}, nil
}

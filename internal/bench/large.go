package main

import (
	"context"
	"fmt"
)

const (
	// maxLargeTime is the CPU time of a call with a result of 1 MB, in ms.
	maxLargeTime = 3.0
	// maxGrowth is how much memory may grow by a result of 20 MB, in payloads.
	maxGrowth = 3.0
	// largeClients call for large results at the same time.
	largeClients = 4
)

// benchLarge measures results of 1 MB by their CPU time and of 20 MB by the
// peak of resident memory over what the process held when it was idle.
func benchLarge(ctx context.Context, l *lab, n *counts, s setting) ([]row, error) {
	large, err := largeResults(ctx, l, n, s)
	if err != nil {
		return nil, err
	}
	var one, more series
	for range n.fresh {
		growth, err := hugeResults(ctx, l, n, s)
		if err != nil {
			return nil, err
		}
		one, more = append(one, growth[0]), append(more, growth[1])
	}
	return append(large,
		row{
			name: fmt.Sprintf("%d MB result, %s: growth", n.bytes.huge>>20, s), toolgate: one.both("payloads"),
			limit: fmt.Sprintf("%v payloads", maxGrowth), verdict: within(one.median(), maxGrowth),
		},
		row{name: fmt.Sprintf("- after %d more, one by one", n.huge), toolgate: more.both("payloads")},
	), nil
}

func largeResults(ctx context.Context, l *lab, n *counts, s setting) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	up, err := r.fastUpstream(s)
	if err != nil {
		return nil, err
	}
	gate, err := r.gateway(mounts{"fast": up.url + "/mcp"})
	if err != nil {
		return nil, err
	}
	if err := r.ready(gate, s.era, ownTools); err != nil {
		return nil, err
	}
	load, err := r.loader(gate.url+"/mcp", s.era)
	if err != nil {
		return nil, err
	}
	if _, err := load.order(order{Do: "open", Count: largeClients}); err != nil {
		return nil, gate.failure(err)
	}
	c := &contestant{server: gate, load: load}
	o := order{Do: "blob", Count: n.large, Size: n.bytes.large, Most: n.roundTime}
	if _, err := load.order(o); err != nil { // warm
		return nil, gate.failure(err)
	}
	for range n.rounds {
		before, err := gate.counters(ctx)
		if err != nil {
			return nil, err
		}
		report, used, err := c.measure(o)
		if err != nil {
			return nil, err
		}
		after, err := gate.counters(ctx)
		if err != nil {
			return nil, err
		}
		c.cpu = append(c.cpu, millis(used, report.Done))
		c.calls += report.Done
		c.allocated += after.allocated - before.allocated
	}
	return []row{{
		name: fmt.Sprintf("%d MB result, %s", n.bytes.large>>20, s), toolgate: c.cpu.both("ms"),
		limit: fmt.Sprintf("%v ms", maxLargeTime), alloc: short(c.allocated / 1024 / float64(c.calls)),
		verdict: within(c.cpu.median(), maxLargeTime),
	}}, nil
}

// hugeResults returns the growth after one result and after some more, in
// payloads.
func hugeResults(ctx context.Context, l *lab, n *counts, s setting) (growth [2]float64, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	up, err := r.fastUpstream(s)
	if err != nil {
		return growth, err
	}
	gate, err := r.gateway(mounts{"fast": up.url + "/mcp"})
	if err != nil {
		return growth, err
	}
	if err := r.ready(gate, s.era, ownTools); err != nil {
		return growth, err
	}
	load, err := r.loader(gate.url+"/mcp", s.era)
	if err != nil {
		return growth, err
	}
	if _, err := load.order(order{Do: "open", Count: 1}); err != nil {
		return growth, gate.failure(err)
	}
	if _, err := load.order(order{Do: "echo", Count: n.warm}); err != nil {
		return growth, gate.failure(err)
	}
	idle, err := memoryOf(gate.pid())
	if err != nil {
		return growth, err
	}
	for i, count := range [...]int{1, n.huge} {
		if _, err := load.order(order{Do: "blob", Count: count, Size: n.bytes.huge}); err != nil {
			return growth, gate.failure(err)
		}
		now, err := memoryOf(gate.pid())
		if err != nil {
			return growth, err
		}
		growth[i] = float64(now.peak-idle.resident) / float64(n.bytes.huge)
	}
	return growth, nil
}

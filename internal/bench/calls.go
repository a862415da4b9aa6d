package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// maxRatio is what a call may cost, in those of the reverse proxy.
	maxRatio = 1.2
	// maxAllocated is what a call may allocate, in KB.
	maxAllocated = 24.0
)

// contestant is a proxy with the load in front of it.
type contestant struct {
	*server
	load   *loader
	tree   []int // processes that it has started, and whose CPU time is its own
	beside []int // processes whose CPU time is counted apart

	cpu       series // µs per call, by round
	others    series // likewise, of the processes beside it
	p50, p99  series // µs
	allocated float64
	calls     int
}

// enroll lets clients talk to a proxy and warms it up.
func (r *room) enroll(s *server, era string, warm int) (*contestant, error) {
	load, err := r.loader(s.url+"/mcp", era)
	if err != nil {
		return nil, err
	}
	c := &contestant{server: s, load: load}
	if _, err := load.order(order{Do: "open", Count: clients}); err != nil {
		return nil, s.failure(err)
	}
	if _, err := load.order(order{Do: "echo", Count: warm}); err != nil {
		return nil, s.failure(err)
	}
	return c, nil
}

// measure carries out an order and returns the CPU time that the proxy used
// for it.
func (c *contestant) measure(o order) (report, time.Duration, error) {
	before, err := c.used()
	if err != nil {
		return report{}, 0, err
	}
	r, err := c.load.order(o)
	if err != nil {
		return r, 0, c.failure(err)
	}
	if r.Done == 0 {
		return r, 0, c.failure(fmt.Errorf("not one call in %v", o.Most))
	}
	after, err := c.used()
	return r, after - before, err
}

// used is the CPU time of the proxy, with that of its processes.
func (c *contestant) used() (time.Duration, error) {
	return cpuTimes(append([]int{c.pid()}, c.tree...)...)
}

// again is the same proxy without figures.
func (c *contestant) again() *contestant {
	return &contestant{server: c.server, load: c.load, tree: c.tree, beside: c.beside}
}

// round is one round of calls.
func (c *contestant) round(ctx context.Context, o order) error {
	var before counters
	var err error
	if c.metrics != "" {
		if before, err = c.counters(ctx); err != nil {
			return err
		}
	}
	apart, err := cpuTimes(c.beside...)
	if err != nil {
		return err
	}
	r, used, err := c.measure(o)
	if err != nil {
		return err
	}
	now, err := cpuTimes(c.beside...)
	if err != nil {
		return err
	}
	c.cpu, c.others = append(c.cpu, micros(used, r.Done)), append(c.others, micros(now-apart, r.Done))
	c.p50, c.p99 = append(c.p50, micros(r.P50, 1)), append(c.p99, micros(r.P99, 1))
	c.calls += r.Done
	if c.metrics != "" {
		after, err := c.counters(ctx)
		if err != nil {
			return err
		}
		c.allocated += after.allocated - before.allocated
	}
	return nil
}

// inTurn measures proxies by short turns of an order, each first in its time, so
// that whatever else the machine does meets all of them.
func inTurn(ctx context.Context, n *counts, o order, all ...*contestant) error {
	o.Count, o.Most = n.turn, n.roundTime
	for i := range n.turns {
		for j := range all {
			if err := all[(i+j)%len(all)].round(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// benchCalls compares the cost of an echo of 100 bytes over 16 clients.
func benchCalls(ctx context.Context, l *lab, n *counts, s setting) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	up, err := r.fastUpstream(s)
	if err != nil {
		return nil, err
	}
	plain, err := r.serve("reverse", "-to", up.url)
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
	a, err := r.enroll(plain, s.era, n.warm)
	if err != nil {
		return nil, err
	}
	b, err := r.enroll(gate, s.era, n.warm)
	if err != nil {
		return nil, err
	}
	if err := inTurn(ctx, n, order{Do: "echo"}, a, b); err != nil {
		return nil, err
	}
	ratio, kb := b.cpu.per(a.cpu), b.allocated/1024/float64(b.calls)
	v := within(ratio.median(), maxRatio)
	if kb > maxAllocated {
		v = missed
	}
	return []row{
		{
			name: "echo, " + s.String(), reverse: a.cpu.both("µs"), toolgate: b.cpu.both("µs"),
			ratio: short(ratio.median()), limit: fmt.Sprintf("%v, %v KB", maxRatio, maxAllocated), alloc: short(kb), verdict: v,
		},
		{
			name:    "- p50 / p99 seen by the client",
			reverse: short(a.p50.median()) + " / " + short(a.p99.median()) + " µs", toolgate: short(b.p50.median()) + " / " + short(b.p99.median()) + " µs",
			ratio: short(b.p50.per(a.p50).median()) + " / " + short(b.p99.per(a.p99).median()),
		},
	}, nil
}

// leave ends a room and keeps the first error.
func leave(r *room, err *error) {
	if ended := r.leave(); *err == nil {
		*err = ended
	}
}

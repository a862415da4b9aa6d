package main

import (
	"context"
	"fmt"
	"time"
)

// maxLight is what a call of an echo may cost beside the reverse proxy, where load and server
// cost little.
const maxLight = 1.05

// maxLarge is what a call with a result of a size may cost.
var maxLarge = map[int]float64{64 << 10: 1.15, 1 << 20: 1.1}

// benchLight compares calls of a gateway as a user gets it, with two servers, with those of the
// reverse proxy in front of one: at full load, and at half of what the slower one can do, by an
// open loop.
func benchLight(ctx context.Context, l *lab, n *counts, s setting) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	r.defaults = true
	up, err := r.serve("light", "-era", s.era, "-answers", s.answers)
	if err != nil {
		return nil, err
	}
	second, err := r.serve("light", "-era", s.era, "-answers", s.answers)
	if err != nil {
		return nil, err
	}
	plain, err := r.serve("reverse", "-to", up.url)
	if err != nil {
		return nil, err
	}
	gate, err := r.gateway(mounts{"fast": up.url + "/mcp", "second": second.url + "/mcp"})
	if err != nil {
		return nil, err
	}
	if err := r.ready(gate, s.era, 2*ownTools); err != nil {
		return nil, err
	}
	a, err := r.enrollLight(plain, s.era, "", n.warm)
	if err != nil {
		return nil, err
	}
	b, err := r.enrollLight(gate, s.era, "fast__", n.warm)
	if err != nil {
		return nil, err
	}
	return lightRows(ctx, n, s, up, a, b)
}

// lightRows measures the two proxies in turns, and the load and the server beside them.
func lightRows(ctx context.Context, n *counts, s setting, up *server, a, b *contestant) ([]row, error) {
	others := func() (time.Duration, error) {
		load, err := cpuTime(a.load.pid())
		if err != nil {
			return 0, err
		}
		server, err := cpuTime(up.pid())
		return load + server, err
	}
	before, err := others()
	if err != nil {
		return nil, err
	}
	if err := inTurn(ctx, n, order{Do: "echo", Light: true}, a); err != nil {
		return nil, err
	}
	after, err := others()
	if err != nil {
		return nil, err
	}
	beside := micros(after-before, a.calls)
	a.cpu, a.calls = nil, 0
	if err := inTurn(ctx, n, order{Do: "echo", Light: true}, a, b); err != nil {
		return nil, err
	}
	ratio, kb := b.cpu.per(a.cpu), b.allocated/1024/float64(b.calls)
	rows := []row{
		{
			name: "light echo, " + s.String(), reverse: a.cpu.both("µs"), toolgate: b.cpu.both("µs"), ratio: short(ratio.median()),
			limit: fmt.Sprint(maxLight), alloc: short(kb), verdict: within(ratio.median(), maxLight),
		},
		{name: "- load and server beside it", reverse: short(beside) + " µs", ratio: short(beside / a.cpu.median())},
	}
	half, err := halfLoad(ctx, n, a, b)
	if err != nil {
		return nil, err
	}
	rows = append(rows, half)
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		line, err := lightBlob(ctx, n, size, a, b)
		if err != nil {
			return nil, err
		}
		rows = append(rows, line)
	}
	return rows, nil
}

// halfLoad measures how long a call takes from the moment when it was to begin, at half of the
// rate that the slower proxy can do.
func halfLoad(ctx context.Context, n *counts, a, b *contestant) (row, error) {
	rate := 0.0
	for _, c := range []*contestant{a, b} {
		r, err := c.load.order(order{Do: "echo", Light: true, Count: n.calls, Most: n.roundTime})
		if err != nil {
			return row{}, c.failure(err)
		}
		if full := float64(r.Done) / r.Took.Seconds(); rate == 0 || full < rate {
			rate = full
		}
	}
	c, d := &contestant{server: a.server, load: a.load}, &contestant{server: b.server, load: b.load}
	if err := inTurn(ctx, n, order{Do: "echo", Light: true, Rate: rate / 2}, c, d); err != nil {
		return row{}, err
	}
	return row{
		name:    fmt.Sprintf("- p50 / p99 at %.0f calls/s", rate/2),
		reverse: short(c.p50.median()) + " / " + short(c.p99.median()) + " µs", toolgate: short(d.p50.median()) + " / " + short(d.p99.median()) + " µs",
		ratio: short(d.p50.per(c.p50).median()) + " / " + short(d.p99.per(c.p99).median()),
	}, nil
}

// lightBlob compares results of a size.
func lightBlob(ctx context.Context, n *counts, size int, a, b *contestant) (row, error) {
	c, d := &contestant{server: a.server, load: a.load}, &contestant{server: b.server, load: b.load}
	some := *n
	some.turn = max(n.turn/max(1, size>>12), 16)
	if err := inTurn(ctx, &some, order{Do: "blob", Size: size, Light: true}, c, d); err != nil {
		return row{}, err
	}
	ratio := d.cpu.per(c.cpu).median()
	line := row{
		name: fmt.Sprintf("- %d KB", size>>10), reverse: c.cpu.both("µs"), toolgate: d.cpu.both("µs"), ratio: short(ratio),
		alloc: short(d.allocated / 1024 / float64(d.calls)),
	}
	if most, ok := maxLarge[size]; ok {
		line.limit, line.verdict = fmt.Sprint(most), within(ratio, most)
	}
	return line, nil
}

// enrollLight lets clients talk to a proxy over raw connections and warms it up.
func (r *room) enrollLight(s *server, era, prefix string, warm int) (*contestant, error) {
	load, err := r.loader(s.url+"/mcp", era, "-prefix", prefix)
	if err != nil {
		return nil, err
	}
	if _, err := load.order(order{Do: "open", Count: clients}); err != nil {
		return nil, s.failure(err)
	}
	if _, err := load.order(order{Do: "echo", Light: true, Count: warm}); err != nil {
		return nil, s.failure(err)
	}
	return &contestant{server: s, load: load}, nil
}

package main

import (
	"context"
	"fmt"
	"strings"
)

const (
	// maxLight is what a call of an echo may cost beside the reverse proxy, where load and server
	// cost little, and maxTail its slowest calls at half load.
	maxLight, maxTail = 1.05, 1.15
	// maxLightAllocated is what such a call may allocate, in KB.
	maxLightAllocated = 8.0
)

// maxLarge is what a call with a result of a size may cost.
var maxLarge = map[int]float64{64 << 10: 1.15, 1 << 20: 1.1}

// benchLight compares calls of a gateway as a user gets it, with two servers, with those of the
// reverse proxy in front of one: at full load, and at half of what the slower one can do, by an
// open loop.
func benchLight(ctx context.Context, l *lab, n *counts, s setting) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	r.defaults = true
	all, err := r.lightServers(s, 2)
	if err != nil {
		return nil, err
	}
	plain, err := r.serve("reverse", "-to", all.urls[0])
	if err != nil {
		return nil, err
	}
	a, err := r.enrollLight(plain, s.era, "", n.warm)
	if err != nil {
		return nil, err
	}
	b, err := r.lightGateway(all.mounts(2), s.era, lightPrefixes(1), n.warm)
	if err != nil {
		return nil, err
	}
	a.beside = []int{a.load.pid(), all.pid()}
	if err := inTurn(ctx, n, order{Do: "echo", Light: true}, a); err != nil {
		return nil, err
	}
	beside := a.others.median()
	alone := a.cpu.median()
	a, b = a.again(), b.again()
	a.beside = nil
	rows, err := lightEcho(ctx, n, "light echo, "+s.String(), maxLight, a, b)
	if err != nil {
		return nil, err
	}
	half, err := halfLoad(ctx, n, maxTail, a, b)
	if err != nil {
		return nil, err
	}
	rows = append(rows, row{name: "- load and server beside it", reverse: short(beside) + " µs", ratio: short(beside / alone)})
	rows = append(rows, half...)
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		line, err := lightBlob(ctx, n, size, maxLarge[size], a, b)
		if err != nil {
			return nil, err
		}
		rows = append(rows, line)
	}
	return rows, nil
}

// lightServers are servers of one process, each at an address of its own.
type lightServers struct {
	*server
	urls []string
}

func (r *room) lightServers(s setting, count int) (*lightServers, error) {
	first, err := r.serve("light", "-era", s.era, "-answers", s.answers, "-listeners", fmt.Sprint(count))
	if err != nil {
		return nil, err
	}
	all := &lightServers{server: first, urls: []string{first.url}}
	for len(all.urls) < count {
		found, err := first.find(served)
		if err != nil {
			return nil, err
		}
		all.urls = append(all.urls, string(found[1]))
	}
	return all, nil
}

// mounts are the first of the servers.
func (l *lightServers) mounts(count int) mounts {
	m := mounts{}
	for i, url := range l.urls[:count] {
		m[fmt.Sprintf("s%d", i)] = url + "/mcp"
	}
	return m
}

// lightPrefixes are what stands before the names of the tools of the first servers.
func lightPrefixes(count int) string {
	all := make([]string, count)
	for i := range all {
		all[i] = fmt.Sprintf("s%d__", i)
	}
	return strings.Join(all, ",")
}

// judged puts a limit to a row; 0 is none.
func (r row) judged(figure, most float64, unit string) row {
	if most > 0 {
		r.limit, r.verdict = fmt.Sprint(most)+unit, within(figure, most)
	}
	return r
}

// lightEcho measures two proxies in turns at full load. The limit is one of their ratio.
func lightEcho(ctx context.Context, n *counts, name string, most float64, a, b *contestant) ([]row, error) {
	if err := inTurn(ctx, n, order{Do: "echo", Light: true}, a, b); err != nil {
		return nil, err
	}
	ratio, kb := b.cpu.per(a.cpu).median(), b.perCall()
	return []row{
		row{name: name, reverse: a.cpu.both("µs"), toolgate: b.cpu.both("µs"), ratio: short(ratio), alloc: short(kb)}.judged(ratio, most, ""),
		row{name: "- allocated", toolgate: short(kb) + " KB"}.judged(kb, maxLightAllocated, " KB"),
	}, nil
}

// halfLoad measures how long a call takes from the moment when it was to begin, at half of the
// rate that the slowest proxy can do. The limit is one of the slowest calls of each, beside those
// of the first.
func halfLoad(ctx context.Context, n *counts, most float64, first *contestant, others ...*contestant) ([]row, error) {
	rate := 0.0
	all := []*contestant{first.again()}
	for _, c := range others {
		all = append(all, c.again())
	}
	for _, c := range all {
		r, err := c.load.order(order{Do: "echo", Light: true, Count: n.calls, Most: n.roundTime})
		if err != nil {
			return nil, c.failure(err)
		}
		if full := float64(r.Done) / r.Took.Seconds(); rate == 0 || full < rate {
			rate = full
		}
	}
	if err := inTurn(ctx, n, order{Do: "echo", Light: true, Rate: rate / 2}, all...); err != nil {
		return nil, err
	}
	var rows []row
	base := all[0]
	for _, c := range all[1:] {
		tail := c.p99.per(base.p99).median()
		rows = append(rows, row{
			name:     fmt.Sprintf("- p50 / p99 at %.0f calls/s", rate/2),
			reverse:  short(base.p50.median()) + " / " + short(base.p99.median()) + " µs",
			toolgate: short(c.p50.median()) + " / " + short(c.p99.median()) + " µs",
			ratio:    short(c.p50.per(base.p50).median()) + " / " + short(tail),
		}.judged(tail, most, " for p99"))
	}
	return rows, nil
}

// lightBlob compares results of a size.
func lightBlob(ctx context.Context, n *counts, size int, most float64, a, b *contestant) (row, error) {
	a, b = a.again(), b.again()
	some := *n
	some.turn = max(n.turn/max(1, size>>12), 16)
	if err := inTurn(ctx, &some, order{Do: "blob", Size: size, Light: true}, a, b); err != nil {
		return row{}, err
	}
	ratio := b.cpu.per(a.cpu).median()
	return row{
		name: fmt.Sprintf("- %d KB", size>>10), reverse: a.cpu.both("µs"), toolgate: b.cpu.both("µs"), ratio: short(ratio),
		alloc: short(b.perCall()),
	}.judged(ratio, most, ""), nil
}

// enrollLight lets clients talk to a proxy over raw connections and warms it up. The prefixes are
// those of the load.
func (r *room) enrollLight(s *server, era, prefixes string, warm int) (*contestant, error) {
	load, err := r.loader(s.url+"/mcp", era, "-prefix", prefixes)
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

// lightGateway starts a gateway as a user gets it, in front of some servers, and lets clients
// call the tools of the prefixes.
func (r *room) lightGateway(m mounts, era, prefixes string, warm int) (*contestant, error) {
	gate, err := r.gateway(m)
	if err != nil {
		return nil, err
	}
	if err := r.ready(gate, era, len(m)*ownTools); err != nil {
		return nil, err
	}
	return r.enrollLight(gate, era, prefixes, warm)
}

package main

import (
	"context"
	"fmt"
	"strconv"
)

const (
	// maxListTime is the CPU time of a list of 1,000 tools, and maxLongList of one of 10,000, in
	// µs.
	maxListTime, maxLongList = 500.0, 2500.0
	// listServers and listTools make the 1,000 tools.
	listServers, listTools = 10, 100
	// ownTools are those that the fast server has in any case.
	ownTools = 3
)

// manyTools starts the servers of the lists that are measured.
func (r *room) manyTools(s setting, each int) (mounts, error) {
	up, err := r.fastUpstream(s, "-tools", strconv.Itoa(each-ownTools))
	if err != nil {
		return nil, err
	}
	m := mounts{}
	for i := range listServers {
		m[fmt.Sprintf("s%d", i)] = fmt.Sprintf("%s/%d", up.url, i)
	}
	return m, nil
}

// benchLists measures full lists of the tools of 10 servers.
func benchLists(ctx context.Context, l *lab, n *counts) ([]row, error) {
	thousand, err := benchList(ctx, l, n, listTools, n.lists, maxListTime)
	if err != nil {
		return nil, err
	}
	tenThousand, err := benchList(ctx, l, n, 10*listTools, max(4, n.lists/10), maxLongList)
	return append(thousand, tenThousand...), err
}

func benchList(ctx context.Context, l *lab, n *counts, each, lists int, most float64) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"legacy", "json"}
	m, err := r.manyTools(s, each)
	if err != nil {
		return nil, err
	}
	gate, err := r.gateway(m)
	if err != nil {
		return nil, err
	}
	all := listServers * each
	if err := r.ready(gate, s.era, all); err != nil {
		return nil, err
	}
	load, err := r.loader(gate.url+"/mcp", s.era)
	if err != nil {
		return nil, err
	}
	if _, err := load.order(order{Do: "open", Count: 4}); err != nil {
		return nil, gate.failure(err)
	}
	c := &contestant{server: gate, load: load}
	o := order{Do: "tools", Count: lists, Most: n.roundTime}
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
		if report.Items != all {
			return nil, gate.failure(fmt.Errorf("lists of %d tools, want %d", report.Items, all))
		}
		after, err := gate.counters(ctx)
		if err != nil {
			return nil, err
		}
		c.cpu = append(c.cpu, micros(used, report.Done))
		c.calls += report.Done
		c.allocated += after.allocated - before.allocated
	}
	return []row{row{
		name: fmt.Sprintf("tools/list, %d tools of %d servers", all, listServers), toolgate: c.cpu.both("µs"), alloc: short(c.perCall()),
	}.judged(c.cpu.median(), most, " µs")}, nil
}

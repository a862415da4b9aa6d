package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

const (
	// manyTime bounds the start of all servers, and manyMemory what the gateway holds then,
	// in MB.
	manyTime   = 3 * time.Minute
	manyMemory = 512
	// manyStop bounds the end of the gateway and of all its processes.
	manyStop = time.Minute
	// manyEach is how many tools each of them has.
	manyEach = 10
)

// many starts servers, some of them as processes of the gateway and the others behind one
// listener, each at a path of its own.
func (r *room) many(n *counts) (mounts, error) {
	extra := strconv.Itoa(manyEach - ownTools)
	up, err := r.fastUpstream(setting{"legacy", "json"}, "-tools", extra)
	if err != nil {
		return nil, err
	}
	m := mounts{}
	for i := range n.servers {
		m[fmt.Sprintf("s%d", i)] = fmt.Sprintf("%s/%d", up.url, i)
	}
	r.pipes = map[string][]string{}
	for i := range n.processes {
		r.pipes[fmt.Sprintf("s%d", i)] = []string{"pipe", "-tools", extra}
	}
	return m, nil
}

// benchMany measures a gateway with many servers and tools: how long until all of them are
// listed, what it holds then, a full list, and calls to one of them.
func benchMany(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	m, err := r.many(n)
	if err != nil {
		return nil, err
	}
	gate, err := r.gateway(m)
	if err != nil {
		return nil, err
	}
	gate.most = manyStop
	tools := n.servers * manyEach
	if err := r.readyWithin(gate, "legacy", tools, manyTime); err != nil {
		return nil, err
	}
	took := time.Since(gate.since)
	if err := pause(ctx, n.settle); err != nil {
		return nil, err
	}
	held, err := memoryOf(gate.pid())
	if err != nil {
		return nil, err
	}
	load, err := r.loader(gate.url+"/mcp", "legacy", "-prefix", "s0__")
	if err != nil {
		return nil, err
	}
	if _, err := load.order(order{Do: "open", Count: 4}); err != nil {
		return nil, gate.failure(err)
	}
	c := &contestant{server: gate, load: load}
	lists, used, err := c.measure(order{Do: "tools", Count: max(4, n.lists/20), Most: n.roundTime})
	if err != nil {
		return nil, err
	}
	if lists.Items != tools {
		return nil, gate.failure(fmt.Errorf("lists of %d tools, want %d", lists.Items, tools))
	}
	calls, callsUsed, err := c.measure(order{Do: "echo", Count: n.calls, Most: n.roundTime})
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%d servers (%d processes), %d tools", n.servers, n.processes, tools)
	mb := float64(held.resident) / (1 << 20)
	return []row{
		{name: name + ": all listed", toolgate: fmt.Sprintf("%.1f s", took.Seconds()), limit: fmt.Sprintf("%.0f s", manyTime.Seconds()), verdict: within(took, manyTime)},
		{name: "- resident memory of the gateway", toolgate: fmt.Sprintf("%.0f MB", mb), limit: fmt.Sprintf("%d MB", manyMemory), verdict: within(mb, manyMemory)},
		{name: "- tools/list of all, CPU", toolgate: fmt.Sprintf("%.0f µs", micros(used, lists.Done))},
		{name: "- call of a process among them, CPU", toolgate: fmt.Sprintf("%.0f µs", micros(callsUsed, calls.Done))},
	}, nil
}

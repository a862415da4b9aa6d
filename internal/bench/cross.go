package main

import (
	"context"
	"fmt"
)

const (
	// maxCross is what a call between the eras may cost, in those of the same
	// client within its era.
	maxCross = 1.3
	// maxSuspended is what a suspended call may hold, in KB.
	maxSuspended = 40.0
)

// benchCross compares the cost of an echo between the eras with that within
// one, for the same client: both gateways take turns. A client that declares
// something has its calls to a legacy server made in a way that they could be
// parked.
func benchCross(ctx context.Context, l *lab, n *counts, era string) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	var same, cross *contestant
	for _, server := range []string{"legacy", "modern"} {
		up, err := r.fastUpstream(setting{server, "json"})
		if err != nil {
			return nil, err
		}
		gate, err := r.gateway(mounts{"fast": up.url + "/mcp"})
		if err != nil {
			return nil, err
		}
		if err := r.ready(gate, era, ownTools); err != nil {
			return nil, err
		}
		c, err := r.enroll(gate, era, n.warm)
		if err != nil {
			return nil, err
		}
		if server == "legacy" == (era == "legacy") {
			same = c
		} else {
			cross = c
		}
	}
	if err := inTurn(ctx, n, order{Do: "echo"}, same, cross); err != nil {
		return nil, err
	}
	ratio := cross.cpu.per(same.cpu).median()
	return []row{
		{name: "echo within an era, " + era + " client", toolgate: same.cpu.both("µs")},
		{
			name: "- between the eras", toolgate: cross.cpu.both("µs"), ratio: short(ratio),
			limit: fmt.Sprint(maxCross), verdict: within(ratio, maxCross),
		},
	}, nil
}

// suspendedBefore is how many calls are suspended before the ones that count.
const suspendedBefore = 50

// benchSuspended measures what calls hold whose server has asked a modern client
// something, while the client thinks: the growth of resident memory, with
// limits that allow for so many. Then all are answered.
func benchSuspended(ctx context.Context, l *lab, n *counts) ([]row, error) {
	var held series
	for range n.fresh {
		kb, err := suspendedCalls(ctx, l, n)
		if err != nil {
			return nil, err
		}
		held = append(held, kb)
	}
	return []row{{
		name: fmt.Sprintf("%d parked calls, each", n.suspended), toolgate: held.both("KB"),
		limit: fmt.Sprintf("%v KB", maxSuspended), verdict: within(held.median(), maxSuspended),
	}}, nil
}

func suspendedCalls(ctx context.Context, l *lab, n *counts) (kb float64, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	up, err := r.fastUpstream(setting{"legacy", "json"})
	if err != nil {
		return 0, err
	}
	gate, err := r.gateway(mounts{"fast": up.url + "/mcp"})
	if err != nil {
		return 0, err
	}
	if err := r.ready(gate, askable, ownTools); err != nil {
		return 0, err
	}
	if _, err := r.enroll(gate, askable, n.warm); err != nil {
		return 0, err
	}
	load, err := r.loader(gate.url+"/mcp", askable)
	if err != nil {
		return 0, err
	}
	add := func(count int) (memory, error) {
		for _, o := range []order{{Do: "open", Count: count}, {Do: "ask", Count: count}} {
			if _, err := load.order(o); err != nil {
				return memory{}, gate.failure(err)
			}
		}
		if err := pause(ctx, n.settle); err != nil {
			return memory{}, err
		}
		return memoryOf(gate.pid())
	}
	before, err := add(suspendedBefore)
	if err != nil {
		return 0, err
	}
	after, err := add(n.suspended)
	if err != nil {
		return 0, err
	}
	if done, err := load.order(order{Do: "tell", Count: n.suspended + suspendedBefore}); err != nil {
		return 0, gate.failure(err)
	} else if done.Done != n.suspended+suspendedBefore {
		return 0, gate.failure(fmt.Errorf("%d of %d parked calls were answered", done.Done, n.suspended+suspendedBefore))
	}
	return max(0, float64(after.resident-before.resident)) / 1024 / float64(n.suspended), nil
}

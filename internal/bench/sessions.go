package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// maxSession is what an idle session may hold, with or without a stream, in KB.
	maxSession = 10.0
	// maxConnected is what it may hold with a connection that was used and is kept for two
	// minutes.
	maxConnected = 10.0
	// before is how many sessions there are before the ones that count.
	sessionsBefore = 50
)

// idleKinds are what clients leave open.
var idleKinds = []struct {
	name, then string // then is what they do once their sessions are open
	most       float64
}{
	{"", "hang up", maxSession},
	{" with a stream", "stream", maxSession},
	{" with a connection", "", maxConnected},
}

// benchSessions measures what idle sessions hold, as the growth of resident memory. Calls come
// first, so that what any traffic needs is there already.
func benchSessions(ctx context.Context, l *lab, n *counts) ([]row, error) {
	var rows []row
	for _, kind := range idleKinds {
		var held series
		for range n.fresh {
			kb, err := idleSessions(ctx, l, n, kind.then)
			if err != nil {
				return nil, err
			}
			held = append(held, kb)
		}
		rows = append(rows, row{
			name: fmt.Sprintf("%d idle sessions%s, each", n.sessions, kind.name), toolgate: held.both("KB"),
			limit: fmt.Sprintf("%v KB", kind.most), verdict: within(held.median(), kind.most),
		})
	}
	return rows, nil
}

func idleSessions(ctx context.Context, l *lab, n *counts, then string) (kb float64, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"legacy", "json"}
	up, err := r.fastUpstream(s)
	if err != nil {
		return 0, err
	}
	gate, err := r.gateway(mounts{"fast": up.url + "/mcp"})
	if err != nil {
		return 0, err
	}
	if err := r.ready(gate, s.era, ownTools); err != nil {
		return 0, err
	}
	busy, err := r.enroll(gate, s.era, n.warm)
	if err != nil {
		return 0, err
	}
	if _, err := busy.load.order(order{Do: "end"}); err != nil {
		return 0, gate.failure(err)
	}
	idle, err := r.loader(gate.url+"/mcp", s.era)
	if err != nil {
		return 0, err
	}
	add := func(count int) (memory, error) {
		if _, err := idle.order(order{Do: "open", Count: count}); err != nil {
			return memory{}, gate.failure(err)
		}
		if then != "" {
			if _, err := idle.order(order{Do: then}); err != nil {
				return memory{}, gate.failure(err)
			}
		}
		if err := pause(ctx, n.settle); err != nil {
			return memory{}, err
		}
		return memoryOf(gate.pid())
	}
	before, err := add(sessionsBefore)
	if err != nil {
		return 0, err
	}
	after, err := add(n.sessions)
	if err != nil {
		return 0, err
	}
	return max(0, float64(after.resident-before.resident)) / 1024 / float64(n.sessions), nil
}

// pause waits, unless the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

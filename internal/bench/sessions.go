package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// maxSession and maxStream are what an idle session may hold, without and
	// with a stream of its own, in KB.
	maxSession, maxStream = 30.0, 45.0
	// before is how many sessions there are before the ones that count.
	sessionsBefore = 50
)

// benchSessions measures what idle sessions hold, each with an open
// connection, as the growth of resident memory. Calls come first, so that what
// any traffic needs is there already.
func benchSessions(ctx context.Context, l *lab, n *counts) ([]row, error) {
	var plain, streams series
	for range n.fresh {
		kb, err := idleSessions(ctx, l, n, false)
		if err != nil {
			return nil, err
		}
		plain = append(plain, kb)
		if kb, err = idleSessions(ctx, l, n, true); err != nil {
			return nil, err
		}
		streams = append(streams, kb)
	}
	return []row{
		{
			name: fmt.Sprintf("%d idle sessions, each", n.sessions), toolgate: plain.both("KB"),
			limit: fmt.Sprintf("%v KB", maxSession), verdict: within(plain.median(), maxSession),
		},
		{
			name: fmt.Sprintf("%d idle sessions with a stream, each", n.sessions), toolgate: streams.both("KB"),
			limit: fmt.Sprintf("%v KB", maxStream), verdict: within(streams.median(), maxStream),
		},
	}, nil
}

func idleSessions(ctx context.Context, l *lab, n *counts, streams bool) (kb float64, err error) {
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
		if streams {
			if _, err := idle.order(order{Do: "stream"}); err != nil {
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

package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// maxInitialize, maxFilled and maxSecond are the times of a start, in ms:
	// until the first initialize is answered, until every tool of the servers
	// that answer is listed, beyond waitForSilent, and of a second session with its list.
	maxInitialize, maxFilled, maxSecond = 20.0, 500.0, 20.0
	// waitForSilent is how long a first list waits for a server that says nothing
	// (docs/adr/0005).
	waitForSilent = 2 * time.Second
	// dialStep is the pause between two looks whether toolgate listens.
	dialStep = 500 * time.Microsecond
)

// benchStart measures a start in front of 10 servers of 100 tools, one of
// which never says a word. Times count from the moment the process listens.
func benchStart(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	up, err := r.fastUpstream(setting{"legacy", "json"}, "-tools", strconv.Itoa(listTools-ownTools))
	if err != nil {
		return nil, err
	}
	m := mounts{"silent": up.url + "/silent"}
	for i := range listServers - 1 {
		m[fmt.Sprintf("s%d", i)] = fmt.Sprintf("%s/%d", up.url, i)
	}
	var listening, initialize, filled, second series
	for range max(n.fresh, n.rounds) {
		t, err := startUp(ctx, l, m)
		if err != nil {
			return nil, err
		}
		listening = append(listening, millis(t.listening, 1))
		initialize = append(initialize, millis(t.initialize, 1))
		filled = append(filled, millis(t.filled-waitForSilent, 1))
		second = append(second, millis(t.second, 1))
	}
	line := func(name string, s series, limit float64) row {
		return row{name: name, toolgate: s.both("ms"), limit: fmt.Sprintf("%v ms", limit), verdict: within(s.best(), limit)}
	}
	return []row{
		{name: "start: listens", toolgate: listening.both("ms")},
		line("start: initialize answered", initialize, maxInitialize),
		line("start: 900 tools of 9 servers, beyond the wait for the silent 10th", filled, maxFilled),
		line("start: second session with its list", second, maxSecond),
	}, nil
}

// starting is how long a start took; all but listening count from there.
type starting struct{ listening, initialize, filled, second time.Duration }

func startUp(ctx context.Context, l *lab, m mounts) (t starting, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	gate, err := r.launch(m)
	if err != nil {
		return t, err
	}
	if err := listens(ctx, gate); err != nil {
		return t, err
	}
	began := time.Now()
	t.listening = began.Sub(gate.since)
	first := newClient(gate.url+"/mcp", "legacy", "")
	defer first.close()
	if err := first.initialize(ctx); err != nil {
		return t, gate.failure(err)
	}
	t.initialize = time.Since(began)
	const all = (listServers - 1) * listTools
	for have := 0; have != all; {
		if have, err = first.tools(ctx); err != nil {
			return t, gate.failure(err)
		}
		if t.filled = time.Since(began); t.filled > startTime {
			return t, gate.failure(fmt.Errorf("lists %d tools, want %d", have, all))
		}
	}
	again := newClient(gate.url+"/mcp", "legacy", "")
	defer again.close()
	began = time.Now()
	if err := again.open(ctx); err != nil {
		return t, gate.failure(err)
	}
	have, err := again.tools(ctx)
	if err != nil {
		return t, gate.failure(err)
	}
	t.second = time.Since(began)
	if have != all {
		return t, gate.failure(fmt.Errorf("the second session lists %d tools, want %d", have, all))
	}
	return t, nil
}

// listens waits until a server takes connections.
func listens(ctx context.Context, s *server) error {
	deadline := time.Now().Add(startTime)
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(s.url, "http://"))
		if err == nil {
			conn.Close()
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return s.failure(fmt.Errorf("does not listen: %w", err))
		}
		time.Sleep(dialStep)
	}
}

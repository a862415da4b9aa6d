package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// maxRecovery is when a server that is back must be reached again, in ms.
const maxRecovery = 1000.0

// benchRestart kills the server behind toolgate while clients call and starts
// it again. Calls may fail while it is down and for a second after.
func benchRestart(ctx context.Context, l *lab, n *counts, s setting) ([]row, error) {
	var recovery series
	failed, done, early := 0, 0, 0
	for range n.fresh {
		o, err := killed(ctx, l, n, s)
		if err != nil {
			return nil, err
		}
		recovery = append(recovery, millis(o.recovery, 1))
		failed, done = failed+o.failed, done+o.done
		if o.early {
			early++
		}
	}
	v := within(recovery.best(), maxRecovery)
	if early > 0 {
		v = missed
	}
	return []row{{
		name:     fmt.Sprintf("server killed under load, %s: back after", s),
		toolgate: recovery.both("ms"), limit: fmt.Sprintf("%v ms", maxRecovery), verdict: v,
	}, {
		name: "- calls that failed, of all; failures before it was killed", toolgate: fmt.Sprintf("%d of %d; %d", failed, failed+done, early),
	}}, nil
}

// outage is what clients saw of a server that was away.
type outage struct {
	done, failed int
	early        bool          // a call failed before the server was killed
	recovery     time.Duration // from the server's return to the last client's first answer
}

func killed(ctx context.Context, l *lab, n *counts, s setting) (_ outage, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	up, err := r.fastUpstream(s)
	if err != nil {
		return outage{}, err
	}
	gate, err := r.gateway(mounts{"fast": up.url + "/mcp"})
	if err != nil {
		return outage{}, err
	}
	if err := r.ready(gate, s.era, ownTools); err != nil {
		return outage{}, err
	}
	c, err := r.enroll(gate, s.era, n.warm)
	if err != nil {
		return outage{}, err
	}
	var seen report
	var failure error
	calling := make(chan struct{})
	go func() { // ends with the order, which is bounded
		defer close(calling)
		seen, failure = c.load.order(order{Do: "echo", Count: 1 << 30, Most: n.before + n.down + n.after, Tolerate: true})
	}()
	err = pause(ctx, n.before)
	died := time.Now()
	up.kill()
	err = errors.Join(err, pause(ctx, n.down))
	var back *server
	if err == nil {
		back, err = r.fastUpstream(s, "-listen", strings.TrimPrefix(up.url, "http://"))
	}
	<-calling
	if err := errors.Join(err, failure); err != nil {
		return outage{}, gate.failure(err)
	}
	o := outage{done: seen.Done, failed: seen.Failed}
	o.early = seen.FirstFailure != 0 && seen.FirstFailure < died.UnixNano()
	switch {
	case seen.Failed == 0:
		return o, gate.failure(errors.New("no call failed while the server was down"))
	case seen.Recovered == 0:
		return o, gate.failure(fmt.Errorf("clients were not answered again within %v; the first failure: %s", n.after, seen.Why))
	}
	o.recovery = time.Unix(0, max(seen.Recovered, seen.LastFailure)).Sub(back.since)
	return o, nil
}

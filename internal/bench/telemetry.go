package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// maxRecorded is what a call may cost more with the audit log, metrics, logs
	// and traces of one call in a hundred, in µs, and maxExecuted with the execution
	// log besides.
	maxRecorded, maxExecuted = 15.0, 25.0
	// A toolgate that is built with tagLess does less for calls where the environment
	// says so: it keeps nothing of them, or no execution log. There is no setting for that.
	tagLess                         = "bench"
	keepsNothing, keepsNoExecutions = "BENCH_KEEPS=nothing", "BENCH_KEEPS=no executions"
)

// collector takes spans and counts how often they come.
type collector struct {
	url     string
	batches atomic.Int64
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 16<<20))
	c.batches.Add(1)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// collect serves a collector from this process until end is called.
func collect(ctx context.Context) (c *collector, end func(), err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("collect spans: %w", err)
	}
	c = &collector{url: "http://" + l.Addr().String()}
	server := &http.Server{Handler: c, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until it is closed
	}()
	return c, func() {
		server.Close()
		<-done
	}, nil
}

// telling are the settings with which everything is told.
func (c *collector) telling() map[string]any {
	return map[string]any{
		"telemetry": map[string]any{"otlp": c.url, "sample": 0.01},
		"log":       map[string]any{"level": "info", "format": "json"},
		"audit":     map[string]any{"mode": "required", "fsync": "interval"},
	}
}

// variant is a toolgate to compare, and how it is set up.
type variant struct {
	name  string
	less  string // what it does less for calls; empty for toolgate as it is
	extra map[string]any
	token string
}

// contest starts a variant and lets clients use it.
func (r *room) contest(v *variant, m mounts, era string, warm int) (*contestant, error) {
	r.extra, r.less, r.token = v.extra, v.less, v.token
	s, err := r.gateway(m)
	if err != nil {
		return nil, err
	}
	if err := r.ready(s, era, ownTools); err != nil {
		return nil, err
	}
	return r.enroll(s, era, warm)
}

// benchTelemetry compares the cost of an echo of which everything is told with
// that in a toolgate that is built to tell nothing.
func benchTelemetry(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"modern", "json"}
	up, err := r.fastUpstream(s)
	if err != nil {
		return nil, err
	}
	spans, end, err := collect(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	servers := mounts{"fast": up.url + "/mcp"}
	var all []*contestant
	for _, v := range []variant{
		{less: keepsNothing},
		{less: keepsNoExecutions, extra: spans.telling()},
		{extra: spans.telling()},
	} {
		c, err := r.contest(&v, servers, s.era, n.warm)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if err := inTurn(ctx, n, order{Do: "echo"}, all...); err != nil {
		return nil, err
	}
	if n.judge && spans.batches.Load() == 0 {
		return nil, errors.New("no span came to the collector")
	}
	off, on, log := all[0], all[1], all[2]
	line := func(name string, c *contestant, limit float64) row {
		more := c.cpu.minus(off.cpu)
		return row{
			name: name, reverse: "-", toolgate: more.both("µs"), limit: fmt.Sprintf("%v µs", limit),
			alloc: short(c.perCall() - off.perCall()), verdict: within(more.median(), limit),
		}
	}
	return []row{
		line("audit, metrics, log, 1 % of traces: more than built without", on, maxRecorded),
		line("- and the execution log", log, maxExecuted),
	}, nil
}

// perCall is what a call allocates, in KB.
func (c *contestant) perCall() float64 { return c.allocated / float64(c.calls) / 1024 }

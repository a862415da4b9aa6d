package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
)

const (
	// budgetCallers is how many callers are charged at the same time.
	budgetCallers = 64
	// maxBudget is what a call may cost more with one budget in a file that keeps
	// every charge, in µs, maxFurther what each further budget may, and maxBounded
	// one in a file that may lose the last with the power.
	maxBudget, maxFurther, maxBounded = 45.0, 12.0, 25.0
	// further is how many budgets there are besides the first.
	further = 4
)

// budgeted are the settings of so many budgets in calls.
func budgeted(durability string, count int) map[string]any {
	var list []map[string]any
	for i := range count {
		list = append(list, map[string]any{
			"name": fmt.Sprintf("b%d", i), "per": []string{"subject", "tenant", "server", "tool", "subject"}[i%5],
			"limit": 1_000_000_000, "window": []string{"month", "day", "hour"}[i%3],
		})
	}
	return map[string]any{"durability": durability, "budgets": list}
}

// benchBudget compares the cost of an echo that is charged with that of one that
// is not.
func benchBudget(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"modern", "json"}
	up, err := r.fastUpstream(s)
	if err != nil {
		return nil, err
	}
	var all []*contestant
	settings := []map[string]any{nil, budgeted("full", 1), budgeted("full", 1+further), budgeted("normal", 1)}
	address, err := r.redis()
	if err != nil {
		return nil, err
	}
	if address != "" {
		shared := budgeted("full", 1)
		shared["redis"], shared["budgets_in"] = address, "redis"
		settings = append(settings, shared)
	}
	for _, extra := range settings {
		r.extra = extra
		c, err := r.charged(mounts{"fast": up.url + "/mcp"}, s.era, n.warm)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if err := inTurn(ctx, n, order{Do: "echo"}, all...); err != nil {
		return nil, err
	}
	free, one, many, bounded := all[0], all[1], all[2], all[3]
	each := many.cpu.minus(one.cpu)
	for i := range each {
		each[i] /= further
	}
	line := func(name string, more series, limit float64, alloc float64) row {
		return row{
			name: name, reverse: "-", toolgate: more.both("µs"), limit: fmt.Sprintf("%v µs", limit), alloc: short(alloc),
			verdict: within(more.median(), limit),
		}
	}
	kb := func(c *contestant) float64 { return c.allocated / float64(c.calls) / 1024 }
	rows := []row{
		line(fmt.Sprintf("a budget, %d callers, SQLite FULL: more than without", budgetCallers), one.cpu.minus(free.cpu), maxBudget, kb(one)-kb(free)),
		line("- each further budget", each, maxFurther, (kb(many)-kb(one))/further),
		{name: "- the whole call (left: without a budget)", reverse: free.cpu.both("µs"), toolgate: one.cpu.both("µs"), ratio: short(one.cpu.per(free.cpu).median())},
		line("- SQLite NORMAL", bounded.cpu.minus(free.cpu), maxBounded, kb(bounded)-kb(free)),
	}
	for _, shared := range all[4:] {
		rows = append(rows, line("- Redis, in the gateway's own process", shared.cpu.minus(free.cpu), maxBounded, kb(shared)-kb(free)))
	}
	return rows, nil
}

// redis starts a Redis server of the room's own and returns its address; empty
// where Redis is not installed.
func (r *room) redis() (string, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil //nolint:nilerr // there is one row less
	}
	var lc net.ListenConfig
	l, err := lc.Listen(r.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port for Redis: %w", err)
	}
	address := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	p, err := r.start("redis-server", os.Environ(), binary, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", r.dir)
	if err != nil {
		return "", err
	}
	if _, err := p.find(redisReady); err != nil {
		return "", err
	}
	r.redisPid = p.pid()
	return "redis://" + address + "/0", nil
}

var redisReady = regexp.MustCompile(`Ready to accept connections`)

// charged starts a gateway and lets many callers use it.
func (r *room) charged(m mounts, era string, warm int) (*contestant, error) {
	s, err := r.gateway(m)
	if err != nil {
		return nil, err
	}
	if err := r.ready(s, era, ownTools); err != nil {
		return nil, err
	}
	load, err := r.loader(s.url+"/mcp", era)
	if err != nil {
		return nil, err
	}
	c := &contestant{server: s, load: load}
	for _, o := range []order{{Do: "open", Count: budgetCallers}, {Do: "echo", Count: warm}} {
		if _, err := load.order(o); err != nil {
			return nil, s.failure(err)
		}
	}
	return c, nil
}

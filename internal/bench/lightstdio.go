package main

import "context"

// benchStdio compares calls of a server that is a process of the gateway, as a user gets it, with
// those of the same server behind a plain bridge from HTTP. The CPU time of both is that of all
// their processes.
func benchStdio(ctx context.Context, l *lab, n *counts, era string) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	r.defaults = true
	r.pipes = map[string][]string{"s0": {"light", "-stdio", "-era", era}}
	plain, err := r.serve("bridge", "-era", era)
	if err != nil {
		return nil, err
	}
	a, err := r.enrollLight(plain, era, "", n.warm)
	if err != nil {
		return nil, err
	}
	b, err := r.lightGateway(mounts{"s0": ""}, era, lightPrefixes(1), n.warm)
	if err != nil {
		return nil, err
	}
	for _, c := range []*contestant{a, b} {
		if c.tree, err = descendants(c.pid()); err != nil {
			return nil, err
		}
		c.beside = c.tree
	}
	name := "stdio echo, " + setting{era, "json"}.String() + ", all processes (left: a plain bridge)"
	rows, err := lightEcho(ctx, n, name, 0, a, b)
	if err != nil {
		return nil, err
	}
	rows = append(rows, row{name: "- of it the server", reverse: a.others.both("µs"), toolgate: b.others.both("µs"), ratio: short(b.others.per(a.others).median())})
	half, err := halfLoad(ctx, n, 0, a, b)
	if err != nil {
		return nil, err
	}
	rows = append(rows, half...)
	for _, size := range []int{64 << 10, 1 << 20} {
		line, err := lightBlob(ctx, n, size, 0, a, b)
		if err != nil {
			return nil, err
		}
		rows = append(rows, line)
	}
	return rows, nil
}

package main

import "context"

// maxSeveral is what a call may cost with several servers, in those with one: nothing more. It
// leaves room for what the turns cannot tell apart.
const maxSeveral = 1.03

// benchSeveral compares calls of gateways as a user gets them in front of one, two and ten
// servers: calls to all of them in turn, and of ten to one of them.
func benchSeveral(ctx context.Context, l *lab, n *counts, s setting) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	r.defaults = true
	const most = 10
	up, err := r.lightServers(s, most)
	if err != nil {
		return nil, err
	}
	plain, err := r.serve("reverse", "-to", up.urls[0])
	if err != nil {
		return nil, err
	}
	reverse, err := r.enrollLight(plain, s.era, "", n.warm)
	if err != nil {
		return nil, err
	}
	all := []*contestant{reverse}
	kinds := []struct {
		name           string
		servers, calls int
	}{
		{"one server", 1, 1},
		{"two servers, calls to both", 2, 2},
		{"ten servers, calls to one", most, 1},
		{"ten servers, calls to all", most, most},
	}
	for _, k := range kinds {
		c, err := r.lightGateway(up.mounts(k.servers), s.era, lightPrefixes(k.calls), n.warm)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if err := inTurn(ctx, n, order{Do: "echo", Light: true}, all...); err != nil {
		return nil, err
	}
	one := all[1]
	ratio := one.cpu.per(reverse.cpu).median()
	rows := []row{row{
		name: "many upstreams, " + s.String() + ": one server", reverse: reverse.cpu.both("µs"), toolgate: one.cpu.both("µs"),
		ratio: short(ratio), alloc: short(one.perCall()),
	}.judged(ratio, maxLight, "")}
	for i, c := range all[2:] {
		ratio := c.cpu.per(one.cpu).median()
		rows = append(rows, row{
			name: "- " + kinds[i+1].name + " (left: one server)", reverse: one.cpu.both("µs"), toolgate: c.cpu.both("µs"),
			ratio: short(ratio), alloc: short(c.perCall()),
		}.judged(ratio, maxSeveral, ""))
	}
	return rows, nil
}

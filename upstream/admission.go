package upstream

import (
	"slices"
	"time"
)

// pooledConn is what [admit] and [givesUp] need to know about a connection of the pool.
type pooledConn struct {
	principal string
	idle      bool
	used      int64     // unix nanoseconds of its last use
	suspended time.Time // since when all its calls are suspended; zero while one is not
}

// admit decides whether a principal may have one more connection. There may be most, and
// held are those that exist. victim is the connection to close for it, -1 if there is
// room. Only idle connections are closed:
//
//   - While there is room, every principal gets a connection.
//   - The share of a principal is max(1, most / principals). The principals are those
//     that hold a connection and the one that wants one. A principal that holds its
//     share or more has to close one of its own.
//   - A principal that holds less takes a connection from the principal that holds the
//     most, among those with an idle one. If it holds a connection itself, it takes only
//     from principals that keep at least as many as it will have. Otherwise it closes
//     one of its own. So no connection goes back and forth, and a principal loses its
//     only connection only to one that has none.
//   - Among equals, the least recently used connection is closed.
func admit(held []pooledConn, principal string, most int) (victim int, ok bool) {
	if len(held) < most {
		return -1, true
	}
	holds := make(map[string]int)
	for i := range held {
		holds[held[i].principal]++
	}
	own, principals := holds[principal], len(holds)
	if own == 0 {
		principals++
	}
	share := max(1, most/principals)

	// rank orders the victims: more is better, zero is none.
	rank := func(p *pooledConn) int {
		n := holds[p.principal]
		switch {
		case !p.idle:
			return 0
		case p.principal == principal:
			return 1 // better than nothing
		case own >= share, own > 0 && n <= own+1:
			return 0
		}
		return 1 + n
	}
	victim, best := -1, 0
	for i := range held {
		p := &held[i]
		if r := rank(p); r > best || r > 0 && r == best && p.used < held[victim].used {
			victim, best = i, r
		}
	}
	return victim, victim >= 0
}

// givesUp returns the index of the connection whose suspended calls end first when a
// principal finds no connection, -1 for none. It is the principal's own connection that
// has been suspended longest. If it has none, it is the connection that [admit] would
// close if suspended connections were idle.
func givesUp(held []pooledConn, principal string, most int) int {
	victim := -1
	for i := range held {
		p := &held[i]
		if p.principal == principal && !p.suspended.IsZero() && (victim < 0 || p.suspended.Before(held[victim].suspended)) {
			victim = i
		}
	}
	if victim >= 0 {
		return victim
	}
	others := slices.Clone(held)
	for i := range others {
		p := &others[i]
		p.idle, p.used = !p.suspended.IsZero(), p.suspended.UnixNano()
	}
	victim, _ = admit(others, principal, most)
	return victim
}

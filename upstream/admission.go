package upstream

import (
	"slices"
	"time"
)

// pooledConn is what admit and yields know of a connection.
type pooledConn struct {
	principal string
	idle      bool
	used      int64     // unix nanoseconds of its last use
	suspended time.Time // since when all its calls are; zero while they are not
}

// admit decides whether a principal may have one more of most places, of which
// some are held. victim is the held one that is given up for it, -1 when a
// place is free. Only idle connections are given up:
//
//   - While a place is free, everyone may have it.
//   - A principal's share is max(1, most / principals), where the principals
//     are those that hold a place and the one that wants one. Who holds its
//     share or more gives up one of its own for another.
//   - Who holds less takes one from the principal that holds the most among
//     those with an idle one. Who holds something itself takes only from
//     principals that are left with no less than it has then, and otherwise
//     gives up one of its own: so nothing is passed to and fro, and nobody
//     loses its only connection but to somebody who has none.
//   - Of several, the least recently used is given up.
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

// yields returns which of the held places is the first whose suspended calls are
// given up for a principal that finds none free, -1 for none: of its own the one
// suspended for longest, and where it has none, the one that [admit] would take if
// suspended places were idle.
func yields(held []pooledConn, principal string, most int) int {
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

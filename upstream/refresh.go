package upstream

import (
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// leastFresh is the least time for which lists count as fresh, whatever the server
	// says.
	leastFresh = time.Second
	// freshShare times the time that it takes to read the lists they count as fresh at
	// least, so that listing does not keep a server busy.
	freshShare = 10
	// keptAge is the greatest age of a listing that the server keeps confirming. Then an
	// equal one replaces it, which is saved again.
	keptAge = time.Hour
)

// demand decides when the lists are read again. If somebody has asked for them, they are
// read when their time is over; else as soon as somebody asks. So an idle gateway sends
// its servers nothing, and nobody waits for a server. The zero value has not been asked.
type demand struct {
	asked  atomic.Bool // since the lists were read last
	lapsed atomic.Bool // their time is over
}

// Asked notes that somebody looks at the lists or calls something from them. It does not
// block and costs almost nothing.
func (s *Server) Asked() {
	if !s.demand.asked.Load() {
		s.demand.asked.Store(true)
	}
	if s.demand.lapsed.Load() {
		signal(s.refetch)
	}
}

// LookAgain makes the server read the lists again because they may have changed. It does
// not block.
func (s *Server) LookAgain() { signal(s.refetch) }

// begin notes that the lists are about to be read.
func (d *demand) begin() {
	d.asked.Store(false)
	d.lapsed.Store(false)
}

// lapse notes that the lists are no longer fresh. It tells whether nobody has asked for
// them since they were read.
func (d *demand) lapse() bool {
	d.lapsed.Store(true)
	return !d.asked.Load()
}

// freshFor returns how long a listing counts as fresh: as long as clients are told (see
// [mcp.Listing.Fresh]). took is the time that it took to read it.
func freshFor(l *mcp.Listing, took time.Duration) time.Duration {
	least := pollRarely
	for _, kind := range mcp.Kinds {
		if own, some := l.Fresh(kind); some {
			least = min(least, own)
		}
	}
	return max(least, leastFresh, freshShare*took)
}

// schedule is when the lists of a server are read.
type schedule struct {
	retry backoff.Backoff
	good  time.Time     // when they were read last
	poll  time.Duration // after which they are read in any case; 0 before the first time
	fresh bool          // the next wait ends when they are no longer fresh
}

// succeeded records that lists were read, and returns when to look again.
func (p *schedule) succeeded(l *mcp.Listing, poll time.Duration, began time.Time) time.Duration {
	p.retry.Reset()
	p.good, p.poll = time.Now(), poll
	fresh := freshFor(l, p.good.Sub(began))
	p.fresh = fresh < poll
	return min(fresh, poll)
}

// untilPoll returns the wait until the lists are read in any case.
func (p *schedule) untilPoll() time.Duration {
	p.fresh = false
	return max(0, p.poll-time.Since(p.good))
}

// tolerates tells whether a failure to read the lists can be ignored for now: the request
// timed out, and the lists were read not long ago. A server that works on one call at a
// time answers nothing else meanwhile.
func (p *schedule) tolerates(err error) bool {
	return errors.Is(err, errCallTimeout) && p.poll > 0 && time.Since(p.good) < p.poll
}

// same tells whether a listing adds nothing to the one before. Then the old one is kept,
// and nothing is computed anew.
func same(before, next *mcp.Listing) bool {
	return before != nil && !before.Stale && before.Era == next.Era && before.Offers(next) &&
		string(before.ServerInfo) == string(next.ServerInfo) && maps.Equal(before.TTL, next.TTL) &&
		maps.Equal(before.Announced, next.Announced) && before.WithoutCapabilities == next.WithoutCapabilities &&
		before.Eras == next.Eras && before.Other == next.Other && string(before.Declared) == string(next.Declared) &&
		next.FetchedAt.Sub(before.FetchedAt) < keptAge
}

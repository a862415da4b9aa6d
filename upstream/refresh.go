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
	// leastFresh is how long lists are taken for fresh at least, whatever their
	// server says.
	leastFresh = time.Second
	// freshShare is how many times longer than reading the lists takes they are
	// taken for fresh, so that no server is busy with listing.
	freshShare = 10
	// keptAge is how old a listing may get that its server confirms again and
	// again, before it is replaced by an equal one, which is saved anew.
	keptAge = time.Hour
)

// demand tells when the lists are read again: when the time is over that they may
// be taken for fresh, if somebody has asked for them meanwhile, and else as soon as
// somebody does. So a gateway that nobody uses asks its servers for nothing, and
// nobody waits for a server. The zero value has not been asked.
type demand struct {
	asked  atomic.Bool // since the lists were read last
	lapsed atomic.Bool // their time is over
}

// Asked notes that somebody is shown the lists or calls something of them. It does
// not wait, and costs next to nothing.
func (s *Server) Asked() {
	if !s.demand.asked.Load() {
		s.demand.asked.Store(true)
	}
	if s.demand.lapsed.Load() {
		signal(s.refetch)
	}
}

// LookAgain has the lists read again, because they may be others than those that
// are known. It does not block.
func (s *Server) LookAgain() { signal(s.refetch) }

// begin notes that the lists are about to be read.
func (d *demand) begin() {
	d.asked.Store(false)
	d.lapsed.Store(false)
}

// lapse notes that the time of the lists is over, and tells whether nobody has asked
// for them since they were read.
func (d *demand) lapse() bool {
	d.lapsed.Store(true)
	return !d.asked.Load()
}

// freshFor is how long a listing that took some time to read is taken for fresh:
// as long as clients are told to (see [mcp.Listing.Fresh]).
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
	poll  time.Duration // after which they are read whoever asks; 0 before the first time
	fresh bool          // the next time is the end of their freshness
}

// succeeded takes account of lists that were read, and returns when to look again.
func (p *schedule) succeeded(l *mcp.Listing, poll time.Duration, began time.Time) time.Duration {
	p.retry.Reset()
	p.good, p.poll = time.Now(), poll
	fresh := freshFor(l, p.good.Sub(began))
	p.fresh = fresh < poll
	return min(fresh, poll)
}

// untilPoll returns how long to wait until the lists are read whoever asks.
func (p *schedule) untilPoll() time.Duration {
	p.fresh = false
	return max(0, p.poll-time.Since(p.good))
}

// tolerates tells whether lists that could not be read say nothing of the server
// yet: it has said nothing, and they were read not long ago. A server that works on
// one call at a time answers nobody meanwhile.
func (p *schedule) tolerates(err error) bool {
	return errors.Is(err, errCallTimeout) && p.poll > 0 && time.Since(p.good) < p.poll
}

// same tells whether a listing says nothing that another one does not, so that the
// other one is kept: nothing is made anew of it.
func same(before, next *mcp.Listing) bool {
	return before != nil && !before.Stale && before.Era == next.Era && before.Offers(next) &&
		string(before.ServerInfo) == string(next.ServerInfo) && maps.Equal(before.TTL, next.TTL) &&
		maps.Equal(before.Announced, next.Announced) && before.Plain == next.Plain &&
		before.Eras == next.Eras && before.Other == next.Other && string(before.Declared) == string(next.Declared) &&
		next.FetchedAt.Sub(before.FetchedAt) < keptAge
}

package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/seal"
)

const (
	// lease is how long a gateway that is gone without a word counts, and renewEvery how
	// often the others are told that this one is there.
	lease      = 15 * time.Second
	renewEvery = 5 * time.Second
	// storeTime bounds one access to the store, leaveTime the last one.
	storeTime = 5 * time.Second
	leaveTime = 2 * time.Second
	// lostMargin is how long before the end of its lease a gateway takes it for ended.
	lostMargin = 5 * time.Second
	// lostAgain is how often it does what it does then, until it has a lease again.
	lostAgain = time.Second
	// suspectTime is how long a member that could not be reached is passed over.
	suspectTime = 2 * time.Second
)

// Store is where members are listed; [Members] implements it.
type Store interface {
	// Renew reports whether the member was not there, or had counted as gone.
	Renew(ctx context.Context, m Member, lease time.Duration) (gone bool, err error)
	Leave(ctx context.Context, id string) error
	List(ctx context.Context) ([]Member, error)
}

// Options are what a [Cluster] needs. All but Servers, Lost and Told are
// required.
type Options struct {
	Store   Store
	Keys    *seal.Keyring
	Address string // host:port, where the others reach this gateway
	Version string // of the program
	Log     *slog.Logger
	// Load returns what this gateway has to do.
	Load func() Load
	// Verify decides about the certificates of clients that another gateway passes on.
	Verify Verifier
	// Returned is called when this gateway is there again, after it had counted as gone.
	Returned func()
	// Servers serves processes of this gateway that others use; nil serves none.
	Servers Servers
	// Lost is called when the lease of this gateway is about to end, because the database does
	// not answer; nil for nobody. It has [lostMargin].
	Lost func()
	// Told is called whenever the members were read; nil for nobody. It must not block.
	Told func()
}

// Cluster is this gateway among those that share its database. Make it with [New]. It is
// safe for concurrent use.
type Cluster struct {
	o         Options
	self      Member // without what changes
	authority *authority
	draining  atomic.Bool
	changed   chan struct{} // capacity 1: the members in the store have changed
	known     chan struct{} // closed once the members were read, or that has failed for storeTime
	members   atomic.Pointer[[]Member]
	good      atomic.Pointer[time.Time] // when the last renewal began that succeeded; nil before Run

	// For Run alone.
	read   time.Time // when the members were last read
	until  time.Time // until when those from before stay, listed or not
	joined bool      // it was among them
	// returned tells that it had counted as gone, and that [Options.Returned] is to be called.
	returned bool

	mu       sync.Mutex
	links    map[string]*link     // by member
	suspects map[string]time.Time // until when members are passed over
	others   map[string]bool      // members of another wire, which the log has named
	closed   bool
}

// New returns this gateway, which knows no other before [Cluster.Run].
func New(o Options) (*Cluster, error) {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	c := &Cluster{
		o: o, changed: make(chan struct{}, 1), known: make(chan struct{}),
		self:  Member{ID: hex.EncodeToString(id[:]), Address: o.Address, Version: o.Version, Wire: Wire, Started: time.Now().UTC()},
		links: make(map[string]*link), suspects: make(map[string]time.Time), others: make(map[string]bool),
	}
	var err error
	if c.authority, err = newAuthority(o.Keys, c.self.ID); err != nil {
		return nil, err
	}
	c.members.Store(&[]Member{c.self})
	return c, nil
}

// Self implements [replica.Peers].
func (c *Cluster) Self() string { return c.self.ID }

// Members returns the gateways that are known to be there, by id.
func (c *Cluster) Members() []Member { return slices.Clone(*c.members.Load()) }

// Known is closed once [Cluster.Run] knows the other members, or could not read them for
// some seconds.
func (c *Cluster) Known() <-chan struct{} { return c.known }

// Draining tells whether this gateway takes nothing new.
func (c *Cluster) Draining() bool { return c.draining.Load() }

// Drain tells the others that this gateway takes nothing new.
func (c *Cluster) Drain() {
	c.draining.Store(true)
	c.Changed()
}

// Changed reports that the members in the store have changed. It does not block.
func (c *Cluster) Changed() {
	select {
	case c.changed <- struct{}{}:
	default: // the pending token covers this change, too
	}
}

// Run keeps this gateway among the members and follows the others until the context ends;
// then it leaves. While the database does not answer, the members stay as they were.
func (c *Cluster) Run(ctx context.Context) error {
	defer c.close()
	again := backoff.Backoff{Base: 100 * time.Millisecond, Max: renewEvery}
	failed := false
	var renewed time.Time
	known := sync.OnceFunc(func() { close(c.known) })
	defer time.AfterFunc(storeTime, known).Stop() // in vain
	if c.o.Lost != nil {
		guarded, end := context.WithCancel(ctx)
		var guard sync.WaitGroup
		guard.Go(func() { c.guard(guarded) })
		defer guard.Wait()
		defer end()
	}
	for ctx.Err() == nil {
		began := time.Now()
		listed, _ := find(*c.members.Load(), c.self.ID)
		due := time.Since(renewed) >= renewEvery || c.draining.Load() != listed.Draining
		err := c.refresh(ctx, due)
		var pause time.Duration
		switch {
		case err == nil:
			known()
			if due {
				renewed = time.Now()
				c.good.Store(&began)
			}
			if failed {
				c.o.Log.Info("the other gateways are known again")
			}
			again.Reset()
			failed, pause = false, max(0, renewEvery-time.Since(renewed))
		case ctx.Err() == nil:
			if !failed {
				c.o.Log.Error("the other gateways are not known; those from before are still asked", "err", err)
			}
			failed, pause = true, again.Next()
		}
		select {
		case <-ctx.Done():
		case <-c.changed:
		case <-time.After(pause):
		}
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if err := c.o.Store.Leave(leaving, c.self.ID); err != nil {
		c.o.Log.Warn("the other gateways find out by themselves that this one is gone", "err", err)
	}
	return nil
}

// refresh renews the lease, where that is due, and reads the members.
func (c *Cluster) refresh(ctx context.Context, due bool) error {
	me := c.self
	me.Draining = c.draining.Load()
	me.Load = c.o.Load()
	if due {
		renewing, cancel := inTime(ctx)
		gone, err := c.o.Store.Renew(renewing, me, lease)
		cancel()
		if err != nil {
			return err
		}
		joined := c.joined
		c.joined = true
		if gone && joined {
			if c.o.Lost != nil {
				c.o.Lost() // before the others are known: they may run what must not run twice
			}
			c.o.Log.Warn("this gateway had counted as gone, or another one says that it is at the same address (cluster.advertise); its sessions may have gone on elsewhere", "address", me.Address)
			c.returned = true
		}
	}
	listing, cancel := inTime(ctx)
	defer cancel()
	list, err := c.o.Store.List(listing)
	if err != nil {
		return err
	}
	same := list[:0]
	for _, m := range list {
		if m.Wire != Wire {
			c.noteOther(m)
			continue
		}
		same = append(same, m)
	}
	for _, m := range c.stay(me) {
		if _, ok := find(same, m.ID); !ok {
			same = append(same, m)
		}
	}
	slices.SortFunc(same, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	before := *c.members.Swap(&same)
	c.tell(before, same)
	c.forget(same)
	if c.o.Told != nil {
		c.o.Told()
	}
	if c.returned { // and the others are known
		c.returned = false
		c.o.Returned()
	}
	return nil
}

// guard calls [Options.Lost] when the lease is about to end, and again and again until it was
// renewed: a renewal whose answer was lost may have let something start. It ends with ctx.
func (c *Cluster) guard(ctx context.Context) {
	start := time.Now()
	c.good.CompareAndSwap(nil, &start)
	for {
		left := lostAgain
		if until := time.Until(c.good.Load().Add(lease - lostMargin)); until > 0 {
			left = until
		} else {
			c.o.Lost()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(left):
		}
	}
}

// inTime bounds one access to the store.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, storeTime, errors.New("the database did not answer in time"))
}

// stay returns the members that are there, listed or not: this gateway and, after a time
// without the database, those from before. Their leases have ended meanwhile, and they have
// as long as a lease to renew them.
func (c *Cluster) stay(me Member) []Member {
	now := time.Now()
	if !c.read.IsZero() && now.Sub(c.read) > lease-renewEvery {
		c.until = now.Add(lease)
	}
	c.read = now
	if now.Before(c.until) {
		return append([]Member{me}, *c.members.Load()...)
	}
	return []Member{me}
}

// noteOther logs once that a gateway speaks another version of the internal link.
func (c *Cluster) noteOther(m Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.others[m.ID] && len(c.others) < 1000 {
		c.others[m.ID] = true
		c.o.Log.Warn("a gateway of another version shares the database; no requests are passed on to it",
			"member", m.ID, "address", m.Address, "version", m.Version, "wire", m.Wire, "own_wire", Wire)
	}
}

// tell logs who came and who left.
func (c *Cluster) tell(before, after []Member) {
	for _, m := range after {
		if _, ok := find(before, m.ID); !ok && m.ID != c.self.ID {
			c.o.Log.Info("a gateway has joined", "member", m.ID, "address", m.Address, "version", m.Version)
		}
	}
	for _, m := range before {
		if _, ok := find(after, m.ID); !ok {
			c.o.Log.Info("a gateway has left", "member", m.ID, "address", m.Address)
		}
	}
}

// Alive implements [replica.Peers]. A member that did not answer is there until its lease
// ends: nobody else has what it has.
func (c *Cluster) Alive(id string) bool {
	_, ok := find(*c.members.Load(), id)
	return ok
}

// Home implements [replica.Peers].
func (c *Cluster) Home(owner, key string, settles bool) string {
	if owner == c.self.ID && !c.draining.Load() {
		return owner
	}
	if m, ok := c.reachable(owner); ok && !m.Draining || settles && c.Alive(owner) {
		return owner
	}
	var fit []Member
	for _, m := range *c.members.Load() {
		if now, ok := c.reachable(m.ID); ok && !now.Draining {
			fit = append(fit, now)
		}
	}
	if m := chosen(fit, key); m != nil {
		return m.ID
	}
	return c.self.ID
}

// reachable returns a member that is there and answers, as far as is known.
func (c *Cluster) reachable(id string) (Member, bool) {
	m, ok := find(*c.members.Load(), id)
	if !ok || id == c.self.ID {
		m.Draining = c.draining.Load()
		return m, ok
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	until, suspect := c.suspects[id]
	return m, !suspect || time.Now().After(until)
}

// suspect passes over a member for a while.
func (c *Cluster) suspect(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspects[id] = time.Now().Add(suspectTime)
}

// forget drops what is kept of members that are gone.
func (c *Cluster) forget(members []Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, l := range c.links {
		if _, ok := find(members, id); !ok {
			delete(c.links, id)
			l.leave()
		}
	}
	maps.DeleteFunc(c.suspects, func(id string, _ time.Time) bool {
		_, ok := find(members, id)
		return !ok
	})
}

// close ends the connections to the others.
func (c *Cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for id, l := range c.links {
		delete(c.links, id)
		l.leave()
	}
}

// link returns the connections to a member, and its address.
func (c *Cluster) link(id string) (*link, string, error) {
	m, ok := find(*c.members.Load(), id)
	if !ok || id == c.self.ID {
		return nil, "", fmt.Errorf("the gateway %s is not there", id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, "", errors.New("this gateway ends")
	}
	l := c.links[id]
	if l == nil {
		l = newLink(c.authority, id)
		c.links[id] = l
	}
	return l, m.Address, nil
}

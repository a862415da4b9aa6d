package credential

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// defaultPrincipals is of how many principals one source remembers the
	// credential, each a few hundred bytes besides its token: several times as many
	// as a server is kept connected for.
	defaultPrincipals = 4096
	// holderIdle is how long a credential is remembered that nobody asks for: longer
	// than a link to sign in is good, as what the server said it wants leads there.
	holderIdle = 30 * time.Minute
)

// holders are what is known of the credentials of several principals: of so many
// that were asked for last. The others are read again when they are next needed.
// What cannot be read again, or is at work, stays whatever the bound is. It is safe
// for concurrent use.
type holders struct {
	most int
	made func(principal string) *holder

	all sync.Map // principal to *holder; read without mu, written with it
	mu  sync.Mutex
	n   int // how many there are
	// idle has those that can be forgotten, roughly by when they were last asked for.
	idle list.List
}

// standing is the place of a holder among the others.
type standing struct {
	asked atomic.Bool // for, since it was last looked at

	// What follows is guarded by the mu of the holders.
	users   int           // who look after the credential, or are about to
	element *list.Element // of idle; nil while it cannot be forgotten
	since   time.Time     // it is idle, as far as is known
}

// mark notes that a credential was asked for. It is written once for many calls, so
// that those of one caller do not all write to one place.
func (h *standing) mark() {
	if !h.asked.Load() {
		h.asked.Store(true)
	}
}

// find returns what is known of a principal, nil for nothing. It may be forgotten
// at any time: who looks after the credential has to acquire it.
func (s *holders) find(principal string) *holder {
	if h, ok := s.all.Load(principal); ok {
		return h.(*holder)
	}
	return nil
}

// acquire returns the one holder of a principal, which stays until it is released.
func (s *holders) acquire(principal string) *holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.find(principal)
	if h == nil {
		h = s.made(principal)
		s.all.Store(principal, h)
		s.n++
	}
	h.users++
	if h.element != nil {
		s.idle.Remove(h.element)
		h.element = nil
	}
	s.tidy(time.Now())
	return h
}

// release is called by who has acquired a holder, after its last use.
func (s *holders) release(h *holder) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	h.users--
	// Whoever has the turn of a holder has acquired it, so nobody writes to it here.
	if h.users == 0 && h.unsaved == nil {
		h.since = now
		h.element = s.idle.PushBack(h)
	}
	s.tidy(now)
}

// tidy forgets those that were idle for long, and of more than there may be those
// that were longest; mu is held.
func (s *holders) tidy(now time.Time) {
	for s.idle.Len() > 0 {
		first := s.idle.Front()
		h := first.Value.(*holder)
		switch {
		case h.asked.Swap(false):
			h.since = now
			s.idle.MoveToBack(first)
		case s.n > s.most || now.Sub(h.since) > holderIdle:
			s.idle.Remove(first)
			s.all.Delete(h.principal)
			s.n--
			h.hide() // nobody uses it
		default:
			return
		}
	}
}

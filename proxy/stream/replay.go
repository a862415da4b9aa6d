package stream

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// Store keeps the events of legacy responses that became streams, so that a client
// whose connection broke can resume (2025-11-25 basic/transports, Resumability and
// Redelivery). It is bounded in total, not per session: the oldest stream goes first.
// It is safe for concurrent use.
type Store struct {
	most int           // bytes of all streams
	keep time.Duration // after the response is complete

	mu      sync.Mutex
	bytes   int
	next    int64
	streams []*Stream // oldest first
}

// Stream is one response. Its events are numbered from 1. It is safe for concurrent
// use.
type Stream struct {
	in      *Store
	session string
	rights  string // of the request: callers with other rights may not resume
	number  int64

	mu      sync.Mutex
	events  [][]byte
	count   int           // of all events, kept or not
	size    int           // kept bytes
	evicted bool          // evicted
	done    time.Time     // when the response was complete; zero before
	grown   chan struct{} // closed and replaced when the stream grows
}

// ErrGone means that a stream cannot be resumed.
var ErrGone = errors.New("the event is not known any more")

// NewStore returns a store of most bytes, in which a stream stays for keep after its
// end.
func NewStore(most int, keep time.Duration) *Store { return &Store{most: most, keep: keep} }

// Open begins a stream of a session, for requests with these rights.
func (r *Store) Open(session, rights string) *Stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	s := &Stream{in: r, session: session, rights: rights, number: r.next, grown: make(chan struct{})}
	r.streams = append(r.streams, s)
	return s
}

// Add stores an event and returns its number. last completes the response.
func (s *Stream) Add(event []byte, last bool) int {
	kept := 0
	s.mu.Lock()
	if !s.evicted {
		s.events, s.size, kept = append(s.events, event), s.size+len(event), len(event)
	}
	s.count++
	if last {
		s.done = time.Now()
	}
	n := s.count
	s.broadcast()
	s.mu.Unlock()
	s.in.account(kept)
	return n
}

// End completes a response without a last event.
func (s *Stream) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = time.Now()
	s.broadcast()
}

// broadcast wakes everybody who waits for the stream to grow or end; mu is held.
func (s *Stream) broadcast() {
	close(s.grown)
	s.grown = make(chan struct{})
}

// account adds n to the kept bytes and evicts the oldest streams beyond the limit.
func (r *Store) account(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += n
	for r.bytes > r.most && len(r.streams) > 0 {
		r.bytes -= r.streams[0].drop()
		r.streams = r.streams[1:]
	}
}

// drop evicts a stream's events and returns their bytes.
func (s *Stream) drop() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.size
	s.evicted, s.events, s.size = true, nil, 0
	s.broadcast()
	return n
}

// Sweep drops streams that were complete for long enough.
func (r *Store) Sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams = slices.DeleteFunc(r.streams, func(s *Stream) bool {
		s.mu.Lock()
		old := !s.done.IsZero() && now.Sub(s.done) > r.keep
		s.mu.Unlock()
		if old {
			r.bytes -= s.drop()
		}
		return old
	})
}

// Forget drops the streams of a session that has ended.
func (r *Store) Forget(session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams = slices.DeleteFunc(r.streams, func(s *Stream) bool {
		if s.session == session {
			r.bytes -= s.drop()
		}
		return s.session == session
	})
}

// Find returns a stream of a session.
func (r *Store) Find(session string, number int64) *Stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.streams {
		if s.number == number && s.session == session {
			return s
		}
	}
	return nil
}

// ID returns the number of the stream in its session.
func (s *Stream) ID() int64 { return s.number }

// Rights returns the rights of the request.
func (s *Stream) Rights() string { return s.rights }

// After returns the events after the n-th, whether more may follow, and a channel that
// is closed when they do.
func (s *Stream) After(n int) (events [][]byte, more bool, grown <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.evicted || n > len(s.events) {
		return nil, false, nil, ErrGone
	}
	return s.events[n:], s.done.IsZero(), s.grown, nil
}

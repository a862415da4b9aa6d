package identity

import (
	"sync"
	"sync/atomic"
)

// swap replaces identities and the gate together, so that the old gate never judges
// callers of the new identities. The zero value has replaced nothing.
type swap struct {
	mu   sync.RWMutex
	turn atomic.Uint64 // odd while both are being replaced
}

// wait returns the turn once nothing is being replaced.
func (s *swap) wait() uint64 {
	for {
		turn := s.turn.Load()
		if turn%2 == 0 {
			return turn
		}
		s.mu.RLock()   // held for as long as it lasts
		s.mu.RUnlock() //nolint:staticcheck // only to wait
	}
}

// same tells whether nothing was replaced since a turn.
func (s *swap) same(turn uint64) bool { return s.turn.Load() == turn }

// do replaces both.
func (s *swap) do(replace func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn.Add(1)
	defer s.turn.Add(1)
	replace()
}

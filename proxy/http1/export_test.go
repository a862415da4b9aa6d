package http1

// Watched returns how many requests have a client that is watched, and how many clients have sent
// the first byte of their next request meanwhile.
func (s *Server) Watched() (watched, early int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.gone.mu.Lock()
		if c.gone.number != 0 || c.gone.reading {
			watched++
		}
		if c.gone.has {
			early++
		}
		c.gone.mu.Unlock()
	}
	return watched, early
}

//go:build !windows

package redistest

import (
	"syscall"
	"testing"
)

// Freeze stops the server without ending it: its connections stay open and say
// nothing.
func (s *Server) Freeze(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Thaw lets it go on.
func (s *Server) Thaw(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.run.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

package wire

import (
	"io"
	"sync"
)

// sent is the body of a request. It is let go once it is sent: a model may think for long, and
// the conversation would be held twice meanwhile. It is safe for concurrent use, because an
// HTTP client may close a body that it still reads.
type sent struct {
	mu   sync.Mutex
	left []byte
}

// Read implements [io.Reader].
func (s *sent) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := copy(p, s.left)
	if s.left = s.left[n:]; len(s.left) > 0 {
		return n, nil
	}
	s.left = nil
	return n, io.EOF
}

// Close implements [io.Closer].
func (s *sent) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = nil
	return nil
}

package upstream

import (
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
)

// standalone attributes what a legacy server asks on the standalone stream of a
// streamable HTTP session: to the only call in flight on it, and to none while
// there are several (DESIGN 5, Attribution). The zero value has no calls.
type standalone struct {
	mu    sync.Mutex
	calls map[*inFlight]bool
}

// enter adds a call; leave takes it out, and nothing reaches it afterwards.
func (s *standalone) enter(call *inFlight) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = make(map[*inFlight]bool)
	}
	s.calls[call] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, call)
	}
}

// ask hands a question to the only call; false when there is no such.
func (s *standalone) ask(msg mcp.Message) bool {
	return s.only(func(call *inFlight) { call.ask(msg) })
}

// takeBack ends a question of the only call; false when there is no such.
func (s *standalone) takeBack(id []byte) bool {
	return s.only(func(call *inFlight) { call.takeBack(id) })
}

// only does something with the only call, which stays in flight meanwhile.
func (s *standalone) only(do func(*inFlight)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) != 1 {
		return false
	}
	for call := range s.calls {
		do(call)
	}
	return true
}

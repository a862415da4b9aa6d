package upstream

import (
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
)

// standalone attributes the questions on the standalone stream of a streamable HTTP
// session to a call: to the only call in flight, and to none if there are several (ADR
// 0012). The zero value has no calls.
type standalone struct {
	mu    sync.Mutex
	calls map[*inFlight]bool
}

// enter adds a call. leave removes it; nothing reaches it afterwards.
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

// ask passes a question to the only call; false if there is not exactly one.
func (s *standalone) ask(msg mcp.Message) bool {
	return s.only(func(call *inFlight) { call.ask(msg) })
}

// takeBack ends a question of the only call; false if there is not exactly one.
func (s *standalone) takeBack(id []byte) bool {
	return s.only(func(call *inFlight) { call.takeBack(id) })
}

// only runs do with the only call, which stays in flight meanwhile.
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

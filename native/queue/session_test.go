package queue_test

import (
	"slices"
	"testing"

	"github.com/toolgate/toolgate/native/queue"
	"github.com/toolgate/toolgate/proxy/guard"
)

// sessionServer is a server that is told of sessions and of clients.
type sessionServer struct {
	server
	told []string
}

func (s *sessionServer) EndSession(principal, session string) {
	s.told = append(s.told, principal+" ended "+session)
}

func (s *sessionServer) Connected(principal string, capabilities []byte) {
	s.told = append(s.told, principal+" connected "+string(capabilities))
}

// A server behind a queue and a guard is told of the ends of sessions and of the
// capabilities of clients.
func TestServerIsToldOfSessions(t *testing.T) {
	t.Parallel()
	s := &sessionServer{}
	pool := new(queue.Pool)
	in := pool.On(guard.New(s, guard.Settings{}, guard.Options{}), func(string) bool { return false })
	in.Connected("alice", []byte("{}"))
	in.EndSession("alice", "1")
	if want := []string{"alice connected {}", "alice ended 1"}; !slices.Equal(s.told, want) {
		t.Errorf("told %q, want %q", s.told, want)
	}
	plain := pool.On(guard.New(&server{}, guard.Settings{}, guard.Options{}), func(string) bool { return false })
	plain.Connected("alice", []byte("{}")) // this server has neither method
	plain.EndSession("alice", "1")
}

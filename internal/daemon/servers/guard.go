package servers

import (
	"sync"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
)

// guardSettings are how a server of the configuration is treated when it fails.
func guardSettings(s *config.Server) guard.Settings {
	set := guard.Settings{Breaker: s.Breaker, Retry: s.Retry, Call: s.Timeouts.Call, Tools: make(map[string]guard.Tool)}
	for name, t := range s.Tools {
		if t.Breaker != nil || t.Idempotent != nil {
			set.Tools[name] = guard.Tool{Breaker: t.Breaker, Idempotent: t.Idempotent}
		}
	}
	return set
}

// sink is told what happens to one server, for the gateway and for the guard in front of
// the server.
type sink struct {
	t     *Table
	guard *guard.Guard // set before the server runs

	mu        sync.Mutex
	left      bool // another one tells of the server, or nobody
	connected bool
}

// Changed implements [upstream.Sink].
func (s *sink) Changed(server string) {
	s.guard.Changed()
	s.count()
	s.t.o.Changed(server)
}

// count shows the state that the server is in.
func (s *sink) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return
	}
	_, status := s.guard.Listing()
	if connected := status.State == mcp.Ready; connected != s.connected {
		if s.connected = connected; connected { // the server itself says why it is not
			s.t.o.Log.Info("connected", "server", s.guard.Name())
		}
	}
	s.t.o.Metrics.State(s.guard.Name(), status.State.String(), status.State == mcp.Ready || status.State == mcp.Degraded)
}

// leave ends what the metrics are told.
func (s *sink) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
}

// Happened implements [upstream.Sink].
func (s *sink) Happened(ev mcp.Event) { s.t.o.Happened(ev) }

// newGuard stands in front of a server.
func (t *Table) newGuard(b proxy.Backend, settings guard.Settings) *guard.Guard {
	return guard.New(b, settings, guard.Options{
		Logger: t.o.Log,
		Changed: func(server, tool string, state guard.State) {
			t.o.Metrics.Breaker(server, tool, state.String())
			now := time.Now()
			t.running.Go(func() { t.o.BreakerChanged(server, tool, state, now) }) // ends with its line in the log
		},
		Retried: t.o.Metrics.Retried,
	})
}

package daemon

import (
	"sync"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/operate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/upstream"
)

// resilience is how a server of the configuration is treated when it fails.
func resilience(s *config.Server) guard.Settings {
	r := guard.Settings{
		Breaker: breaker(s.Breaker), Tools: make(map[string]guard.Tool),
		TrustHints: s.Retry.TrustHints, Call: s.Timeouts.Call,
	}
	if s.Retry.Max != nil {
		r.Retries, r.NoRetry = *s.Retry.Max, *s.Retry.Max == 0
	}
	for name, t := range s.Tools {
		if t.Breaker == nil && t.Idempotent == nil {
			continue
		}
		own := guard.Tool{Idempotent: t.Idempotent}
		if t.Breaker != nil {
			b := breaker(*t.Breaker)
			own.Breaker = &b
		}
		r.Tools[name] = own
	}
	return r
}

func breaker(b config.BreakerSettings) guard.Breaker {
	return guard.Breaker{Failures: b.Failures, Ratio: b.Ratio, Open: b.Open, Off: b.Off}
}

// serverSink hears of one server, for the gateway and for the guard before it.
type serverSink struct {
	in    *Daemon
	guard *guard.Guard // set before the server runs

	mu        sync.Mutex
	left      bool // another one tells of the server, or nobody
	connected bool
}

// Changed implements [upstream.Sink].
func (s *serverSink) Changed(server string) {
	s.guard.Changed()
	s.count()
	s.in.Changed(server)
}

// count shows the state that the server is in.
func (s *serverSink) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return
	}
	_, status := s.guard.Listing()
	if connected := status.State == mcp.Ready; connected != s.connected {
		if s.connected = connected; connected { // the server itself says why it is not
			s.in.Log.Info("connected", "server", s.guard.Name())
		}
	}
	s.in.Metrics.State(s.guard.Name(), status.State.String(), status.State == mcp.Ready || status.State == mcp.Degraded)
}

// leave ends what the metrics are told.
func (s *serverSink) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
}

// Happened implements [upstream.Sink].
func (s *serverSink) Happened(ev mcp.Event) { s.in.Happened(ev) }

// sameServer tells whether two specs reach the same server, whatever else they
// say of it.
func sameServer(a, b upstream.Spec) bool { return a.Hash() == b.Hash() }

// guard stands before a server of the gateway.
func (in *Daemon) guard(b proxy.Backend, set guard.Settings) *guard.Guard {
	return guard.New(b, set, guard.Options{
		Logger: in.Log,
		Changed: func(server, tool string, state guard.State) {
			in.Metrics.Breaker(server, tool, state.String())
			now := time.Now()
			in.Running.Go(func() { in.noteBreaker(server, tool, state, now) }) // ends with its line
		},
		Retried: in.Metrics.Retried,
	})
}

// noteBreaker writes the new state of a breaker into the audit log.
func (in *Daemon) noteBreaker(server, tool string, state guard.State, at time.Time) {
	entry := audit.Entry{
		Event: audit.EventChange, Time: at, Principal: audit.Principal{Subject: operate.Automatic}, Method: "toolgate/breaker", Kind: "breaker",
		Server: server, OriginalName: tool, Name: state.String(), Outcome: audit.OutcomeOK, Reason: "the circuit breaker is " + state.String(),
	}
	if err := in.Records.Auditor().Append(&entry); err != nil {
		in.Log.Error("audit entry not kept", "breaker", server, "tool", tool, "state", state, "err", err)
	}
}

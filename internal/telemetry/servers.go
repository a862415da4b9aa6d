package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// serverCounters are metrics of the connections to servers.
type serverCounters struct {
	state *prometheus.GaugeVec
	up    *prometheus.GaugeVec
	ended *prometheus.HistogramVec

	mu    *sync.Mutex
	known map[string]serverState // by server
}

type serverState struct {
	name  string
	since time.Time // time of the connection; zero while not connected
}

func newServerCounters(c *catalog) serverCounters {
	return serverCounters{
		state: c.gauges("toolgate_upstream_state", "1 for the state that a server is in.", "server", "state"),
		up:    c.gauges("toolgate_upstream_up", "1 while a server is connected, else 0.", "server"),
		ended: c.histograms("mcp_client_session_duration_seconds",
			"How long the gateway's own connections to a server lasted that have ended (mcp.client.session.duration).", "server"),
		mu: new(sync.Mutex), known: make(map[string]serverState),
	}
}

// State sets the state of a server and whether it is connected.
func (m *Metrics) State(server, state string, connected bool) {
	s := &m.servers
	server = value(server)
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.known[server]
	if !known && len(s.known) >= maxServers {
		return
	}
	now := serverState{name: state, since: before.since}
	switch {
	case connected && before.since.IsZero():
		now.since = time.Now()
	case !connected && !before.since.IsZero():
		s.ended.WithLabelValues(server).Observe(time.Since(before.since).Seconds())
		now.since = time.Time{}
	}
	if known && before == now {
		return
	}
	s.known[server] = now
	s.state.DeletePartialMatch(prometheus.Labels{"server": server})
	s.state.WithLabelValues(server, state).Set(1)
	up := 0.0
	if connected {
		up = 1
	}
	s.up.WithLabelValues(server).Set(up)
}

// forget removes a server.
func (s *serverCounters) forget(server string) {
	server = value(server)
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.known[server]; !before.since.IsZero() {
		s.ended.WithLabelValues(server).Observe(time.Since(before.since).Seconds())
	}
	delete(s.known, server)
	of := prometheus.Labels{"server": server}
	s.state.DeletePartialMatch(of)
	s.up.DeletePartialMatch(of)
}

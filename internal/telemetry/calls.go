package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Call is one closed call.
type Call struct {
	Method    string
	Transport string // stdio, sse or http
	Server    string // key of the server of the called item; empty for none
	Tool      string // exposed name of an existing tool; else empty
	Outcome   string
	Code      string // kind of refusal, or error code
	// Took is the total time, Upstream the part spent at servers; 0 for a call that
	// reached none.
	Took, Upstream time.Duration
}

// kind is the set of labels of a call. server is empty when none was called.
type kind struct{ method, transport, server, tool, outcome, code string }

// handles are the counters of one kind of calls; nil where one does not apply.
type handles struct {
	operation, client, duration prometheus.Observer
	total, denied               prometheus.Counter
}

// maxKinds bounds the kinds with cached counters; others are looked up for each call.
const maxKinds = 4 * maxTools

// callCounters count calls and all other client requests.
type callCounters struct {
	operation *prometheus.HistogramVec
	client    *prometheus.HistogramVec
	total     *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	denied    *prometheus.CounterVec
	found     *prometheus.CounterVec

	mu      *sync.RWMutex
	kinds   map[kind]*handles
	agents  map[string]prometheus.Counter
	tools   *names
	servers *names
	words   *names
	persons *names
}

func newCallCounters(c *catalog) callCounters {
	tools, servers, words, persons := newNames(maxTools), newNames(maxServers), newNames(maxWords), newNames(maxAgents)
	return callCounters{
		operation: c.histograms("mcp_server_operation_duration_seconds",
			"Duration of what clients ask for, from the request to the answer (mcp.server.operation.duration).",
			"mcp_method_name", "network_transport", "outcome", "error_type"),
		client: c.histograms("mcp_client_operation_duration_seconds",
			"The part of calls that was spent at servers, all rounds and repetitions of a call together (mcp.client.operation.duration).",
			"mcp_method_name", "server", "error_type"),
		total:    c.counters("tool_execution_total", "Tool calls by exposed name and outcome.", "tool_name", "status"),
		duration: c.histograms("tool_execution_duration", "Duration of tool calls in seconds.", "tool_name"),
		denied:   c.counters("tool_permission_denied", "Refused tool calls by exposed name and kind of refusal.", "tool_name", "kind"),
		found:    c.counters("tool_discovery_count", "Lists of tools that were served, by the persona of the caller; empty for callers without one.", "agent_id"),
		mu:       new(sync.RWMutex), kinds: make(map[kind]*handles), agents: make(map[string]prometheus.Counter),
		tools: &tools, servers: &servers, words: &words, persons: &persons,
	}
}

// Call counts one closed call.
func (m *Metrics) Call(c *Call) {
	k := kind{c.Method, c.Transport, "", c.Tool, c.Outcome, ErrorType(c.Outcome, c.Code)}
	if c.Upstream > 0 {
		k.server = c.Server
	}
	h := m.calls.handles(k)
	took := c.Took.Seconds()
	h.operation.Observe(took)
	if h.client != nil {
		h.client.Observe(c.Upstream.Seconds())
	}
	if h.total == nil {
		return
	}
	h.total.Inc()
	h.duration.Observe(took)
	if h.denied != nil {
		h.denied.Inc()
	}
}

// Served counts a request that calls nothing, such as a list or a ping.
func (m *Metrics) Served(method, binding string, took time.Duration, failed bool) {
	k := kind{method: method, transport: binding, outcome: "ok"}
	if failed {
		k.outcome, k.code = "error", "error"
	}
	m.calls.handles(k).operation.Observe(took.Seconds())
}

// Discovered counts a list of tools for an agent.
func (m *Metrics) Discovered(agent string) {
	c := &m.calls
	c.mu.RLock()
	counter := c.agents[agent]
	c.mu.RUnlock()
	if counter == nil {
		c.mu.Lock()
		counter = c.found.WithLabelValues(c.persons.label(agent))
		if len(c.agents) < 2*maxAgents {
			c.agents[agent] = counter
		}
		c.mu.Unlock()
	}
	counter.Inc()
}

// handles returns the counters of a kind of calls.
func (c *callCounters) handles(k kind) *handles {
	c.mu.RLock()
	h := c.kinds[k]
	c.mu.RUnlock()
	if h != nil {
		return h
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	method, code := c.words.label(k.method), c.words.label(k.code)
	h = &handles{operation: c.operation.WithLabelValues(method, Transport(k.transport), k.outcome, code)}
	if k.server != "" {
		h.client = c.client.WithLabelValues(method, c.servers.label(k.server), code)
	}
	if k.tool != "" {
		tool := c.tools.label(k.tool)
		h.total, h.duration = c.total.WithLabelValues(tool, k.outcome), c.duration.WithLabelValues(tool)
		if k.outcome == "denied" {
			h.denied = c.denied.WithLabelValues(tool, code)
		}
	}
	if len(c.kinds) < maxKinds {
		c.kinds[k] = h
	}
	return h
}

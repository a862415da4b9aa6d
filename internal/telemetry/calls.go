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
	User      string // subject of the caller
	// Took is the total time, Upstream the part spent at servers; 0 for a call that
	// reached none.
	Took, Upstream time.Duration
}

// kind is the set of labels of a call. server is empty when none was called, and user
// unless callers are told apart.
type kind struct{ method, transport, server, tool, outcome, code, user string }

// handles are the counters of one kind of calls; nil where one does not apply.
type handles struct {
	operation, client, duration prometheus.Observer
	total, refused, denied      prometheus.Counter
}

// agent is what is counted of the lists of one persona.
type agent struct {
	lists prometheus.Counter
	tools prometheus.Gauge
}

// gateDenials are the refusals by which the gate denies a call: registry, capsules,
// relations and policies, scopes, the operator's rules and people.
var gateDenials = map[string]bool{
	"denied": true, "insufficient_scope": true, "governance": true, "approval_denied": true,
	"policy_error": true, "authz_unavailable": true, "authz_misconfigured": true,
}

// maxDenied bounds the series of denials that tell callers apart.
const maxDenied = 10_000

// maxKinds bounds the kinds with cached counters; others are looked up for each call.
const maxKinds = 4 * maxTools

// callCounters count calls and all other client requests.
type callCounters struct {
	operation *prometheus.HistogramVec
	client    *prometheus.HistogramVec
	total     *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	refused   *prometheus.CounterVec
	denied    *prometheus.CounterVec
	lists     *prometheus.CounterVec
	visible   *prometheus.GaugeVec

	mu      *sync.RWMutex
	kinds   map[kind]*handles
	agents  map[string]agent
	apart   map[[3]string]bool // series of denials that tell callers apart
	users   *names             // nil if callers are not told apart
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
		refused:  c.counters("toolgate_refusals_total", "Refused tool calls by exposed name and kind of refusal.", "tool_name", "kind"),
		denied:   c.counters("tool_permission_denied", "Tool calls that the gate denied, by exposed name, kind of refusal, and subject of the caller (empty unless telemetry.users is set).", "tool_name", "kind", "user_id"),
		lists:    c.counters("toolgate_tool_lists_total", "Lists of tools that were served, by the persona of the caller; empty for callers without one.", "agent_id"),
		visible:  c.gauges("tool_discovery_count", "Tools in the latest list of a persona, at most those of one page (limits.page); empty for callers without a persona.", "agent_id"),
		mu:       new(sync.RWMutex), kinds: make(map[kind]*handles), agents: make(map[string]agent), apart: make(map[[3]string]bool),
		tools: &tools, servers: &servers, words: &words, persons: &persons,
	}
}

// TellUsersApart gives so many callers a value of their own in the label user_id of
// denials; all others have "_other". It is called before the first call is counted.
func (m *Metrics) TellUsersApart(most int) {
	if users := newNames(most); most > 0 {
		m.calls.users = &users
	}
}

// Call counts one closed call.
func (m *Metrics) Call(c *Call) {
	k := kind{method: c.Method, transport: c.Transport, tool: c.Tool, outcome: c.Outcome, code: ErrorType(c.Outcome, c.Code)}
	if c.Upstream > 0 {
		k.server = c.Server
	}
	if m.calls.users != nil && gateDenials[k.code] {
		k.user = c.User
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
	if h.refused != nil {
		h.refused.Inc()
	}
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

// Discovered counts a list of so many tools for a persona.
func (m *Metrics) Discovered(persona string, tools int) {
	c := &m.calls
	c.mu.RLock()
	of, known := c.agents[persona]
	c.mu.RUnlock()
	if !known {
		c.mu.Lock()
		label := c.persons.label(persona)
		of = agent{c.lists.WithLabelValues(label), c.visible.WithLabelValues(label)}
		if len(c.agents) < 2*maxAgents {
			c.agents[persona] = of
		}
		c.mu.Unlock()
	}
	of.lists.Inc()
	of.tools.Set(float64(tools))
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
			h.refused = c.refused.WithLabelValues(tool, code)
			if gateDenials[k.code] {
				h.denied = c.denied.WithLabelValues(tool, code, c.user(tool, code, k.user))
			}
		}
	}
	if len(c.kinds) < maxKinds {
		c.kinds[k] = h
	}
	return h
}

// user is the label of a caller in a series of denials; mu is held.
func (c *callCounters) user(tool, code, subject string) string {
	if c.users == nil {
		return ""
	}
	label := c.users.label(subject)
	series := [3]string{tool, code, label}
	if label == other || c.apart[series] {
		return label
	}
	if len(c.apart) >= maxDenied {
		return other
	}
	c.apart[series] = true
	return label
}

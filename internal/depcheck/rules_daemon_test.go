package depcheck_test

// daemonRules are the rules of a running gateway and its parts; see rules.
var daemonRules = map[string]rule{
	"internal/daemon": {
		ours: []string{anything}, others: []string{anything},
		why: "the composition root wires everything, so that nothing else has to",
	},
	"internal/daemon/build": {
		ours: []string{anything}, others: []string{anything},
		why: "makes parts of settings, so that it knows both, and all of them",
	},
	"internal/daemon/listen": {
		ours: []string{"config", "internal/daemon/build", "internal/descent", "internal/failure", "internal/loopback", "proxy", "proxy/http1", "proxy/limit"},
		why:  "serves whatever handler it is given; it knows the settings of listeners, and no gateway",
	},
	"internal/daemon/daemontest": {
		ours: []string{
			"config", "internal/daemon", "internal/daemon/statedir", "internal/failure", "internal/fakeserver", "internal/lineclient", "internal/logs", "internal/mcp", "internal/testwait",
			"native/plugins/code", "native/plugins/fs", "native/plugins/system", "native/plugins/text", "native/plugins/web",
		},
		why: "runs gateways for tests, with everything that the program has compiled in and the fake server behind them",
	},
	"internal/daemon/queued": {
		ours: []string{
			"config", "internal/backoff", "internal/daemon/build", "internal/daemon/statedir", "internal/failure", "internal/mcp", "internal/orphan", "internal/sandbox",
			"internal/seal", "internal/version", "native", "native/declared", "native/queue", "native/queue/kafka", "native/queue/nats", "native/queue/postgres", "proxy",
		},
		why: "the one place that knows the engines of queues; a worker has tools and no gateway",
	},
	"internal/daemon/placed": {
		ours: []string{"internal/cluster", "internal/mcp", "upstream/shared", "upstream/transport"},
		why:  "joins the gateways that share servers to the processes that they share",
	},
	"internal/daemon/hosted": {
		ours: []string{
			"config", "internal/daemon/build", "internal/daemon/servers", "internal/mcp", "internal/orphan", "internal/sandbox", "internal/version", "native", "native/proto",
			"proxy", "proxy/intercept", "upstream", "upstream/credential",
		},
		why: "a command asks interceptors without a gateway; only what hosts them is started",
	},
	"internal/daemon/servers": {
		ours: []string{
			"budget/rate", "config", "gate", "gate/governance", "internal/admin", "internal/background", "internal/backoff", "internal/daemon/build", "internal/daemon/catalogs", "internal/daemon/signin",
			"internal/daemon/statedir", "internal/failure", "internal/mcp", "internal/telemetry", "internal/version", "native", "native/declared", "native/inside", "native/proto", "native/queue",
			"native/toolapi",
			"proxy", "proxy/guard", "upstream", "upstream/credential", "upstream/transport",
		},
		why: "starts what settings ask for and ends it; the gateway in front of it is told by functions",
	},
	"internal/daemon/catalogs": {
		ours: []string{"internal/mcp", "internal/seal", "internal/store", "upstream"},
		why:  "a listing is kept and authenticated, whoever listed it",
	},
	"internal/daemon/identity": {
		ours: []string{"config", "gate", "internal/admin", "internal/failure", "proxy", "proxy/auth", "upstream"},
		why:  "who is known follows from the settings and the request; no server is started for it and nothing is stored",
	},
	"internal/daemon/openid": {
		ours: []string{"gate", "internal/egress", "internal/loopback", "proxy/auth", "upstream/oauth"}, others: []string{"golang.org/x/sync/singleflight"},
		why: "brings people to issuers and asks who they are; what an ID token says is verified elsewhere",
	},
	"internal/daemon/signin": {
		ours: []string{"config", "gate", "internal/admin", "internal/daemon/identity", "internal/descent", "internal/egress", "internal/loopback", "internal/seal", "internal/store", "upstream", "upstream/credential", "upstream/oauth", "upstream/transport"},
		why:  "brings people to authorization servers and keeps what comes of it; of the running gateway it is told what it needs",
	},
	"internal/daemon/agents": {
		ours: []string{
			"budget", "gate", "internal/admin", "internal/background", "internal/backoff", "internal/cancel", "internal/egress", "internal/mcp", "internal/seal", "internal/store/runs", "native/agents", "native/agents/model",
			"native/agents/model/anthropic", "native/agents/model/openai", "native/inside", "native/toolapi",
		},
		why: "keeps the runs of agents and goes on with them; who their callers are now, and what makes their calls, is handed in",
	},
	"internal/daemon/schedule": {
		ours: []string{"gate", "internal/store"},
		why:  "claims calls and records their ends; who makes them, with which rights, is handed in",
	},
	"internal/daemon/home": {
		ours: []string{"internal/loopback", "proxy/about"},
		why:  "strangers read the page, so it knows nothing of the gateway; the clients are handed in",
	},
	"internal/daemon/tries": {
		ours: []string{"gate", "gate/schema", "internal/admin", "internal/lineclient", "internal/mcp", "proxy", "proxy/refusal", "proxy/schemas"},
		why:  "makes calls as a client on a stream; who the caller is and what serves the stream is handed in",
	},
	"internal/daemon/replay": {
		ours: []string{"config/units", "gate", "gate/opa", "internal/admin", "internal/audit", "internal/child", "internal/mcp", "internal/sandbox", "internal/seal", "proxy"},
		why:  "decides recorded calls again, in a process of its own for people who are no operators; what reads the records is handed in",
	},
	"internal/daemon/learning": {
		ours: []string{"gate", "internal/admin", "internal/audit", "internal/mcp", "internal/store", "proxy", "proxy/find", "proxy/find/learn", "proxy/findview", "proxy/redact"},
		why:  "pairs searches and calls and keeps them; it is told of both, and answers nobody",
	},
	"internal/daemon/inside": {
		ours: []string{
			"gate", "internal/audit", "internal/daemon/hidden", "gate/approval", "internal/mcp", "internal/seal", "internal/store", "native/agents", "native/inside", "native/plugins/memory", "native/plugins/notify", "native/plugins/schedule",
			"native/toolapi", "proxy", "proxy/schemas",
		},
		why: "hands the parts of a gateway to the groups that it serves itself",
	},
	"internal/daemon/added": {
		ours: []string{
			"config", "gate", "gate/approval", "gate/governance", "internal/admin", "internal/daemon/build", "internal/daemon/follow", "internal/mcp", "internal/store",
			"native/enable", "native/toolapi", "proxy", "proxy/refusal",
		},
		why: "asks the gate who may add what; starting what was added is its user's",
	},
	"internal/daemon/follow": {why: "rows of the store are followed alike, whatever they are; who loads and serves them is handed in"},
	"internal/daemon/registered": {
		ours: []string{
			"config", "gate", "gate/approval", "gate/governance", "internal/admin", "internal/daemon/build", "internal/daemon/follow", "internal/daemon/tools", "internal/mcp", "internal/seal",
			"internal/store", "native/declared", "native/enable", "native/toolapi", "proxy", "proxy/refusal",
		},
		why: "asks the gate who may register what, and makes tools of templates; serving them is its user's",
	},
	"internal/daemon/tools": {
		ours: []string{
			"config", "config/decode", "internal/admin", "internal/daemon/build", "internal/daemon/follow", "internal/daemon/hidden", "internal/daemon/statedir", "internal/egress", "internal/mcp",
			"internal/seal", "internal/store", "internal/version", "native/declared",
		},
		others: []string{"golang.org/x/sync"},
		why:    "fetches and checks what is declared elsewhere; serving it is its user's; x/sync bounds how many are asked at once",
	},
	"internal/daemon/hidden": {
		ours: []string{"internal/admin", "internal/logs", "proxy/redact"},
		why:  "what is secret does not depend on where it would be shown",
	},
	"internal/daemon/operate": {
		ours: []string{
			"config", "gate/governance", "gate/opa", "gate/schema", "internal/admin", "internal/audit", "internal/daemon/build", "internal/daemon/references",
			"internal/daemon/statedir", "internal/failure", "internal/headroom", "internal/store", "proxy/auth", "proxy/inflight", "proxy/limit", "proxy/refusal",
		},
		why: "a mode bears on the gate and on calls under way; of the running gateway it is told what it needs",
	},
	"internal/daemon/references": {
		ours: []string{
			"config", "gate", "gate/capsule", "gate/governance", "gate/opa", "gate/spicedb", "internal/admin", "internal/daemon/build",
			"internal/daemon/statedir", "internal/mcp", "internal/spelling", "internal/store", "native/enable", "proxy/auth",
		},
		why: "reads every rule that names something, and asks a running gateway or its store what there is",
	},
	"internal/daemon/records": {
		ours: []string{
			"budget", "config", "gate", "internal/admin", "internal/audit", "internal/daemon/build", "internal/daemon/hidden", "internal/daemon/statedir",
			"internal/failure", "internal/feedback", "internal/mcp", "internal/store", "internal/telemetry", "internal/version", "proxy", "proxy/intercept", "proxy/redact",
		},
		others: []string{"go.opentelemetry.io/otel", "golang.org/x/sync"},
		why:    "takes a call's one record apart into what is kept of it; x/sync runs the writers",
	},
	"internal/daemon/statedir": {
		ours: []string{"config", "config/secret", "internal/failure", "internal/filelock", "internal/seal", "internal/store"},
		why:  "where things are kept depends on the file of the configuration alone",
	},
}

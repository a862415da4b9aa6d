package depcheck_test

const module = "github.com/toolgate/toolgate"

// rule says what the packages of one folder may import besides the standard library,
// outside their tests.
type rule struct {
	ours   []string // folders of this module; "x/..." is x and everything in it
	others []string // modules, or packages in them, by prefix
	why    string
}

// anything allows every import.
const anything = "..."

// rules is the whole table. A key is a folder, or "folder/..." for a folder and
// everything in it. The longest key that matches a package is its rule. Listed packages
// need not exist yet; existing packages must be listed.
var rules = merged(map[string]rule{
	"cmd/toolgate/...": {
		ours: []string{anything}, others: []string{anything},
		why: "commands start a gateway and ask it",
	},

	"proxy": {
		ours: []string{"gate", "budget", "budget/rate", "config/decode", "config/units", "internal/...", "proxy/about", "proxy/find", "proxy/findview", "proxy/firstlist", "proxy/guard", "proxy/inflight", "proxy/intercept", "proxy/limit", "proxy/names", "proxy/redact", "proxy/refusal", "proxy/replica", "proxy/result", "proxy/result/jq", "proxy/reuse", "proxy/revision", "proxy/schemas", "proxy/stream"},
		why:  "the request path sees upstreams and native tools only as a Backend, so that neither is a special case",
	},
	"proxy/auth": {
		ours:   []string{"config/secret", "gate", "internal/loopback"},
		others: []string{"github.com/golang-jwt/jwt/v5", "golang.org/x/sync/singleflight"},
		why:    "finds out who calls; what they may do is the gate's; x/sync asks an issuer once for all who wait",
	},
	"proxy/auth/authtest": {
		why: "certificates for tests of more than one package",
	},

	"proxy/guard": {
		ours:   []string{"internal/mcp", "proxy/refusal"},
		others: []string{"github.com/sony/gobreaker/v2"},
		why:    "whether a backend is called, and how often, depends on how it answers alone; gobreaker counts",
	},
	"proxy/firstlist": {
		why: "waits for what it is told of servers",
	},
	"proxy/intercept": {
		ours:   []string{"config/secret", "config/tree", "config/units", "gate", "internal/loopback", "internal/mcp"},
		others: []string{"github.com/sony/gobreaker/v2"},
		why:    "asks strangers about a call, and believes none that says too much; how they are reached is handed in",
	},
	"proxy/intercept/plugin": {
		ours: []string{"native/proto", "proxy/intercept"},
		why:  "a question in the messages of plugins; the process is handed in",
	},
	"proxy/intercept/server": {
		ours: []string{"internal/mcp", "proxy/intercept"},
		why:  "a question in the words of the draft; the connection to the server is handed in",
	},
	"proxy/intercept/webhook": {
		ours: []string{"gate/approval", "proxy/intercept"},
		why:  "a question over HTTP, signed as those about approvals are",
	},
	"proxy/refusal": {
		ours: []string{"budget", "budget/rate", "gate", "internal/mcp"},
		why:  "what a refusal says follows from who refuses: the gate, a budget or a backend",
	},
	"proxy/inflight": {
		ours: []string{"gate", "internal/mcp"},
		why:  "a call under way is what the gate was asked, and a function that cancels it",
	},
	"proxy/limit": {
		ours: []string{"budget/rate", "config/units", "gate", "proxy/refusal"},
		why:  "a limit counts what it is told of and says no in the words of the one table; it knows no request, no server and no session",
	},
	"proxy/names": {
		ours: []string{"internal/mcp"},
		why:  "a name that clients see depends on its own server alone, and never on who else is there or who asks",
	},
	"proxy/result": {
		ours: []string{"config/tree", "config/units", "internal/mcp", "proxy/redact", "proxy/refusal", "proxy/result/jq"},
		why:  "what is done with a result follows from its tool and the rules; whose it is, is handed in",
	},
	"proxy/result/jq": {
		ours:   []string{"internal/mcp"},
		others: []string{"github.com/itchyny/gojq"},
		why:    "a program of a stranger computes with a value and its bounds, and reaches nothing else; gojq runs it",
	},
	"proxy/replica": {
		ours: []string{"internal/backoff", "internal/mcp", "internal/seal", "proxy/refusal"},
		why:  "says where a request belongs and what ids carry; who the gateways are and how they are reached is handed in",
	},
	"proxy/reuse": {
		ours: []string{"internal/mcp"},
		why:  "whoever uses it says what makes two calls the same, so that it can only hold and find",
	},
	"proxy/revision": {
		ours: []string{"internal/mcp"},
		why:  "how older clients are answered is a pure function of the message and the revision",
	},
	"proxy/find": {
		ours:   []string{"internal/mcp"},
		others: []string{"github.com/blevesearch/snowballstem"},
		why:    "ranks a catalog for words; who may view what is handed in; snowballstem finds the stems of English words",
	},
	"proxy/find/learn": {
		ours: []string{"internal/mcp", "proxy/find"},
		why:  "what callers chose after which words; where that is kept is its user's",
	},
	"proxy/find/vectors": {
		ours: []string{"config/secret", "config/tree", "internal/backoff", "internal/egress", "internal/loopback", "proxy/find"},
		why:  "asks a model of the operator for vectors through the guarded client; where they are kept is handed in",
	},
	"proxy/findview": {
		ours: []string{"internal/mcp", "internal/spelling", "proxy/find", "proxy/find/vectors", "proxy/schemas"},
		why:  "what clients see of the find view and what its searches read; who may view what is handed in",
	},
	"proxy/schemas": {
		ours: []string{"internal/mcp"},
		why:  "how a schema is written for a reader depends on the schema and the reader alone",
	},
	"proxy/about": {why: "strangers may read it, so it knows nothing of the gateway"},
	"proxy/http1": {
		ours:   []string{"internal/backoff", "internal/cancel", "internal/httpfield", "internal/idleread"},
		others: []string{"golang.org/x/net", "golang.org/x/sys"},
		why:    "a server of bytes and handlers, as net/http's, with its rules for fields; it knows no MCP; x/sys waits for many connections",
	},
	"proxy/stream": {why: "a queue and a store of bytes know neither what they hold nor for whom"},
	"proxy/redact": {
		ours: []string{"config/decode", "config/secret", "config/tree", "config/units", "internal/mcp"},
		why:  "what a secret looks like depends on nobody who calls or is called",
	},

	"upstream": {
		ours: []string{"config/decode", "config/units", "internal/arena", "internal/backoff", "internal/cancel", "internal/child", "internal/mcp", "internal/sandbox", "upstream/http1", "upstream/transport"},
		why:  "speaks to one server and knows nothing of callers, policy or catalogs; sandbox has the rights of its process",
	},
	"upstream/...": {
		ours:   []string{"upstream", "internal/mcp"},
		others: []string{"golang.org/x/sys"},
		why:    "a transport or credential is a folder beside the state machine",
	},
	"upstream/http1": {
		ours:   []string{"internal/background", "internal/cancel", "internal/httpfield", "internal/idleread"},
		others: []string{"golang.org/x/net"},
		why:    "bytes of HTTP, and nothing of what they mean; net says which fields are valid, as net/http does",
	},
	"upstream/transport": {
		ours: []string{"internal/arena", "internal/background", "internal/backoff", "internal/cancel", "internal/child", "internal/failure", "internal/mcp", "internal/sandbox", "upstream/http1"},
		why:  "carries messages; what they mean, and for whom they are, is known above it; the process at the other end may be confined",
	},
	"upstream/shared": {
		ours: []string{"internal/mcp", "upstream/transport"},
		why:  "one process and the links to it; which gateways they belong to is known above it",
	},
	"upstream/oauth": {
		ours:   []string{"internal/loopback"},
		others: []string{"github.com/golang-jwt/jwt/v5"},
		why:    "the client's side of OAuth; who is signed in, and what is kept, is not its business; jwt signs what proves a client",
	},
	"upstream/oauth/oauthtest": {
		others: []string{"github.com/golang-jwt/jwt/v5"},
		why:    "an authorization server and a protected server for tests of more than one package; jwt signs ID tokens",
	},
	"upstream/credential": {
		ours: []string{"config/secret", "config/tree", "upstream/oauth"},
		why:  "tokens of principals; where they are kept and who may be reached is handed in",
	},

	"native": {
		ours:   []string{"config/secret", "internal/backoff", "internal/child", "internal/mcp", "internal/sandbox", "native/embedded", "native/frames", "native/group", "native/handshake", "native/proto", "native/toolapi"},
		others: []string{"github.com/hashicorp/go-plugin", "github.com/hashicorp/go-hclog", "google.golang.org/grpc", "google.golang.org/protobuf", "golang.org/x/sys"},
		why:    "runs plugin processes, confined; policy sees them as backends; x/sys seals the bytes that are run",
	},
	"native/...": {
		ours:   []string{"native/...", "internal/child", "internal/mcp", "internal/sandbox", "internal/egress"},
		others: []string{"github.com/hashicorp/go-plugin", "google.golang.org/grpc", "google.golang.org/protobuf"},
		why:    "the shipped tools",
	},
	"native/agents/model": {why: "what an agent needs of a model, whatever the wire format; journals keep it"},
	"native/agents/model/internal/wire": {
		ours: []string{"internal/background", "internal/egress", "native/agents/model"},
		why:  "what the wire formats have in common; the HTTP client is handed in, and egress names what it refuses",
	},
	"native/agents/model/openai": {
		ours: []string{"native/agents/model", "native/agents/model/internal/wire"},
		why:  "two wire formats on the standard library alone; OpenAI's library is for the tests (ADR 0047)",
	},
	"native/agents/model/modeltest": {
		ours: []string{"native/agents/model"},
		why:  "a model's endpoint for tests and examples, on the standard library alone",
	},
	"native/agents/model/conformance": {why: "tests alone"},
	"native/agents/model/anthropic": {
		ours: []string{"native/agents/model", "native/agents/model/internal/wire"},
		why:  "a wire format on the standard library alone; Anthropic's library is for the tests (ADR 0047)",
	},
	"native/declared": {
		ours: []string{"config/secret", "config/tree", "config/units", "internal/child", "internal/egress", "internal/mcp", "internal/sandbox", "native/group", "native/placeholder", "native/steps", "proxy/reuse"},
		why:  "a request or a command that is declared is served as a tool; it says itself how it is declared",
	},
	"native/placeholder": {
		ours: []string{"internal/mcp"},
		why:  "what goes into a template depends on the values and the template alone",
	},
	"native/queue": {
		ours: []string{"config/secret", "config/tree", "internal/backoff", "internal/cancel", "internal/mcp", "internal/seal"},
		why:  "what a queue promises, whatever carries it; engines are packages below it",
	},
	"native/queue/memory":    {ours: []string{"native/queue"}, why: "an engine in one process"},
	"native/queue/queuetest": {ours: []string{"native/queue", "internal/testserver"}, why: "the tests of every engine"},
	"native/queue/kafka": {
		ours:   []string{"native/queue"},
		others: []string{"github.com/twmb/franz-go"},
		why:    "an engine on a log, with the client that events go out by as well",
	},
	"native/queue/nats": {
		ours:   []string{"native/queue"},
		others: []string{"github.com/nats-io/nats.go"},
		why:    "an engine on the client of NATS alone; its server is for tests and never in the program",
	},
	"native/queue/postgres": {
		ours:   []string{"internal/backoff", "internal/batch", "native/queue"},
		others: []string{"github.com/jackc/pgx/v5"},
		why:    "an engine in a database of its own, which may be that of the store, and need not be",
	},
	"native/steps": {
		ours: []string{"config/tree", "gate/schema", "internal/mcp", "native/placeholder"},
		why:  "what a plan calls, and with what, follows from the plan and the answers; who makes the calls is handed in; a condition is a schema",
	},
	"native/handshake": {why: "comes before everything else in a process that serves a shipped plugin, so it stands on the standard library alone"},
	"native/embedded": {
		ours:   []string{"native/handshake", "native/toolapi", "internal/orphan", "internal/sandbox"},
		others: []string{"golang.org/x/net/http2/hpack"},
		why:    "a shipped plugin is entered before the rest of the program is initialised, so what serves it imports next to nothing",
	},
	"native/toolapi": {
		ours:   []string{"internal/mcp"},
		others: []string{"github.com/google/jsonschema-go"},
		why:    "what a tool is, for strangers and for ourselves; how it is served is not its business, so neither gRPC nor go-plugin is linked for it",
	},
	"native/proto": {
		others: []string{"google.golang.org/grpc", "google.golang.org/protobuf"},
		why:    "the plugin protocol, and what is generated from it",
	},
	"native/frames": {why: "both sides of a socket beside gRPC, in plugins of other people as well, so it stands on the standard library alone"},
	"native/sdk/...": {
		ours:   []string{"native/frames", "native/proto", "native/sdk", "native/toolapi"},
		others: []string{"github.com/hashicorp/go-plugin", "github.com/hashicorp/go-hclog", "github.com/google/jsonschema-go", "google.golang.org/grpc", "google.golang.org/protobuf"},
		why:    "plugins of other people are built with it: it brings as little along as can be",
	},

	"native/sdk/internal/inprocesstest": {
		ours:   []string{"native/sdk", "native/sdk/sdktest"},
		others: []string{"google.golang.org/grpc"},
		why:    "what every adapter of a library is tested with",
	},
	"native/sdk/gosdk": {
		ours:   []string{"native/sdk", "native/sdk/internal/inprocess"},
		others: []string{"github.com/modelcontextprotocol/go-sdk"},
		why:    "makes a plugin of a server that is written with this library; alone in its package, so that others do not link the library",
	},
	"native/sdk/mcpgo": {
		ours:   []string{"native/sdk", "native/sdk/internal/inprocess"},
		others: []string{"github.com/mark3labs/mcp-go"},
		why:    "makes a plugin of a server that is written with this library; alone in its package, so that others do not link the library",
	},

	"native/plugins/files": {
		ours:   []string{"native/toolapi"},
		others: []string{"golang.org/x/text/unicode/norm"},
		why:    "what tools reach of a machine's files; x/text knows which names some file system takes for the same",
	},
	"native/group": {
		ours: []string{"config/tree", "config/units", "internal/sandbox"},
		why:  "what the groups have in common; the process of a group is entered with it, so it imports little",
	},
	"native/plugins/text": {ours: []string{"native/embedded", "native/group", "native/toolapi"}, why: "tools that need nothing but their arguments"},
	"native/plugins/fs":   {ours: []string{"config/tree", "config/units", "native/embedded", "native/group", "native/toolapi", "native/plugins/files"}, why: "the tools for files; what is reached is said by the package beneath"},
	"native/plugins/system": {
		ours:   []string{"config/units", "native/embedded", "native/group", "native/toolapi", "native/plugins/files"},
		others: []string{"github.com/shirou/gopsutil/v4"},
		why:    "gopsutil knows how each system tells its figures; nothing else needs them",
	},
	"native/plugins/code": {
		ours:   []string{"config/tree", "config/units", "native/embedded", "native/group", "native/toolapi", "native/plugins/files", "internal/child", "internal/orphan", "internal/sandbox"},
		others: []string{"golang.org/x/sys"},
		why:    "runs programs, confined; x/sys ends what they leave behind, but for the guardian of the process",
	},
	"native/plugins/web": {
		ours:   []string{"config/secret", "config/units", "native/embedded", "native/group", "native/toolapi", "internal/egress", "internal/sandbox"},
		others: []string{"golang.org/x/net/html"},
		why:    "fetches through the checked dialer only; x/net reads HTML and its character sets",
	},
	"native/agents": {
		ours: []string{"budget", "config/secret", "config/tree", "internal/background", "internal/loopback", "internal/mcp", "native/agents/model", "native/group", "native/toolapi"},
		why:  "asks a model and calls what it wants; the model, the calls, the journal and the budget are handed in",
	},
	"native/inside": {
		ours: []string{"internal/cancel", "internal/mcp", "native", "native/toolapi"},
		why:  "serves tools without a process; what they are about is handed in with them",
	},
	"native/plugins/memory": {
		ours: []string{"native/group", "native/inside", "native/toolapi"},
		why:  "finds texts by words; where they are kept and what must not be is handed in, so that the settings bring no database along",
	},
	"native/plugins/notify": {
		ours: []string{"config/secret", "config/tree", "native/group", "native/toolapi"},
		why:  "says what a user can be told; how the user is reached is handed in",
	},
	"native/plugins/schedule": {
		ours: []string{"native/group", "native/toolapi"},
		why:  "says what can be planned; where it is planned and who makes the calls is handed in",
	},
	"native/enable": {
		ours: []string{"internal/mcp", "native/toolapi"},
		why:  "tools by which servers are added; what may be added and where it is kept is handed in",
	},

	"gate": {
		ours: []string{"internal/mcp"},
		why:  "what a decision is must not depend on who makes it, or on any driver",
	},
	"gate/registry": {
		ours: []string{"config/decode", "config/format", "config/tree", "gate", "gate/governance", "internal/mcp", "internal/store"},
		why:  "the capability catalog is in the store; what a class is, governance says; its settings and its seed file it reads itself",
	},
	"gate/composite": {
		ours: []string{"gate", "internal/mcp"},
		why:  "who may call what a tool calls, the other phases say",
	},
	"gate/capsule": {ours: []string{"gate", "internal/mcp"}, why: "sets of capabilities are configuration only"},
	"gate/governance": {
		ours: []string{"config/tree", "config/units", "gate", "gate/schema", "internal/mcp"},
		why:  "rules about arguments are configuration only; which of them are paths is in the tool's schema",
	},
	"gate/schema": {
		ours:   []string{"internal/mcp"},
		others: []string{"github.com/santhosh-tekuri/jsonschema/v6"},
		why:    "whether arguments fit a schema depends on nothing but the two; the library sees vetted schemas only",
	},
	"gate/approval": {
		ours: []string{"config/decode", "config/secret", "config/tree", "gate", "internal/mcp", "internal/store"},
		why:  "a grant is used once, across restarts",
	},
	"gate/spicedb": {
		ours:   []string{"config/secret", "config/tree", "gate", "internal/backoff", "internal/mcp"},
		others: []string{"github.com/authzed/authzed-go", "github.com/sony/gobreaker/v2", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf"},
		why:    "the driver stays in the one phase that asks it, and so does the breaker for what it asks",
	},
	"gate/spicedb/spicedbtest": {
		ours:   []string{"gate", "gate/spicedb", "internal/mcp", "internal/testport", "internal/testwait"},
		others: []string{"github.com/authzed/authzed-go", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf"},
		why:    "the suite that every backend passes, and a server for it",
	},
	"gate/opa": {
		ours:   []string{"config/decode", "config/tree", "config/units", "gate", "internal/loopback", "internal/mcp", "internal/store"},
		others: []string{"github.com/open-policy-agent/opa", "github.com/fsnotify/fsnotify", "go.yaml.in/yaml/v3"},
		why:    "the driver stays in the one phase that asks it; policies are watched, and their YAML may not name a key twice",
	},

	"budget": {
		ours: []string{"config/tree", "config/units"},
		why:  "a new store needs nothing but this package to be written",
	},
	"budget/rate": {why: "how often is a matter of arithmetic and a clock; shared buckets are handed in"},
	"budget/budgettest": {
		ours:   []string{"budget"},
		others: []string{"github.com/anishathalye/porcupine"},
		why:    "the suite that every store passes; porcupine finds out whether what concurrent callers saw can be true",
	},
	"budget/sqlstore": {ours: []string{"budget", "internal/batch", "internal/store"}, why: "budgets in the store"},
	"budget/redis": {
		ours:   []string{"budget", "budget/rate", "internal/batch"},
		others: []string{"github.com/redis/go-redis/v9"},
		why:    "budgets and rates in a driver of their own",
	},
	"budget/redis/redistest": {why: "runs the server that tests need", ours: []string{"internal/testport", "internal/testserver"}},

	"config": {
		ours: []string{
			"budget", "budget/rate", "config/clients", "config/decode", "config/format", "config/secret", "config/tree", "config/units",
			"gate/approval", "gate/capsule", "gate/governance", "gate/opa", "gate/registry", "gate/spicedb", "internal/audit",
			"internal/cluster", "internal/feedback", "internal/headroom", "internal/logs", "internal/loopback", "internal/seal", "internal/telemetry", "native", "native/agents", "native/declared", "native/enable", "native/group", "native/plugins/...",
			"native/queue", "native/steps", "proxy", "proxy/auth", "proxy/findview", "proxy/guard", "proxy/intercept", "proxy/limit", "proxy/redact", "proxy/result", "proxy/reuse", "proxy/schemas", "upstream", "upstream/credential",
		},
		others: []string{"github.com/fsnotify/fsnotify"},
		why:    "reads files into the settings that packages declare; none of them knows it, so that every package can be configured without it",
	},
	"config/clients": {
		ours: []string{"config/decode", "config/envfile", "config/secret", "config/tree", "internal/spelling", "upstream", "upstream/credential", "upstream/transport"},
		why:  "what a client's file says of its servers is read without toolgate's own section, so that no setting changes how it is read",
	},
	"config/envfile": {
		ours: []string{"config/decode", "config/format"},
		why:  "lines of NAME=value are read the same for a server's env file and for the gateway's own",
	},
	"config/decode": {
		ours: []string{"config/secret", "config/tree", "config/units", "internal/loopback"},
		why:  "fills the struct of any section and knows none, so that packages declare their own",
	},
	"config/secret": {why: "a credential is kept out of every output by its type, whoever has it"},

	"config/format": {
		ours:   []string{"config/tree", "config/units"},
		others: []string{"go.yaml.in/yaml/v3", "github.com/pelletier/go-toml/v2"},
		why:    "a language of files is read into the tree, whatever the values mean",
	},
	"config/tree":  {why: "values with their lines, whichever language they were written in"},
	"config/units": {why: "sizes and durations are the same in every setting and message"},
	"config/edit": {
		ours:   []string{"config", "config/format", "config/tree"},
		others: []string{"go.yaml.in/yaml/v3", "github.com/pelletier/go-toml/v2"},
		why:    "changes an entry of a file in the formats that config reads, and reads it again to see that the rest is as it was",
	},

	"internal/mcp": {
		ours:   []string{"internal/arena"},
		others: []string{"golang.org/x/sys/cpu"},
		why:    "the protocol's words and bytes: everything stands on it, so it stands on nothing but the memory that they lie in; x/sys/cpu knows whether the processor has vectors",
	},
	"internal/arena":      {why: "memory, whatever lies in it"},
	"internal/httpfield":  {others: []string{"golang.org/x/net"}, why: "text of a head, whoever sends it; net says which fields are valid, as net/http does"},
	"internal/idleread":   {why: "bytes of a connection, whoever speaks"},
	"internal/background": {why: "goroutines that somebody waits for, whatever they do"},
	"internal/backoff":    {why: "how long to wait does not depend on what is tried again"},
	"internal/retrieval":  {why: "measures rankings, whoever made them"},
	"internal/filelock":   {why: "whose a file is does not depend on what is in it"},
	"internal/store": {
		ours:   []string{"internal/backoff", "internal/failure", "internal/filelock"},
		others: []string{"modernc.org/sqlite", "github.com/jackc/pgx/v5"},
		why:    "the only package that knows there is a database",
	},
	"internal/store/runs": {
		ours: []string{"internal/store"},
		why:  "rows of agents' runs; what they mean, and who goes on with them, is its user's",
	},
	"internal/store/storetest": {
		ours:   []string{"internal/store", "internal/testserver"},
		others: []string{"github.com/jackc/pgx/v5", "github.com/google/go-cmp", "go.uber.org/goleak", "golang.org/x/sys/unix"},
		why:    "the suite that every database passes, and the server it needs",
	},
	"internal/audit": {
		ours: []string{"config/tree", "config/units", "internal/filelock"},
		why:  "must work when everything else does not",
	},
	"internal/egress": {
		ours:   []string{"upstream/http1"},
		others: []string{"golang.org/x/net/idna"},
		why:    "where a request may lead does not depend on who makes it; http1 carries bytes alone; x/net knows the one form of a name",
	},
	"internal/descent": {
		ours:   []string{"internal/orphan"},
		others: []string{"golang.org/x/sys"},
		why:    "who is at the other end of a connection does not depend on what is said there; x/sys asks the kernel",
	},
	"internal/admin": {
		ours:   []string{"gate/approval", "internal/audit", "internal/descent", "internal/mcp"},
		others: []string{"golang.org/x/sys"},
		why:    "the control API: what a running gateway is asked and answers; x/sys knows who is at the other end of a socket",
	},
	"internal/admin/admintest": {
		others: []string{"github.com/santhosh-tekuri/jsonschema/v6"},
		why:    "compares answers in tests of more than one package with openapi.json",
	},
	"internal/console/form": {
		ours: []string{"internal/mcp"},
		why:  "which fields a form has follows from the schema and what was written",
	},
	"internal/console": {
		ours: []string{"gate", "gate/approval", "internal/admin", "internal/audit", "internal/console/form", "internal/loopback", "internal/mcp"},
		why:  "pages show what the admin API answers; who somebody is, and the gateway, are handed in",
	},
	"internal/heap":     {why: "is initialised early because it imports nothing"},
	"internal/spelling": {why: "compares two words"},
	"internal/lineclient": {
		ours: []string{"internal/failure", "internal/mcp", "internal/version", "proxy"},
		why:  "what a client of a gateway sends depends on the protocol alone; proxy has the name by which toolgate calls itself",
	},
	"internal/fakeserver": {why: "a test program that imports it is the server before anything else of it is initialised"},
	"internal/failure":    {why: "who has to act on an error, and what the system's errors mean in plain words; whoever makes an error says so"},
	"internal/version":    {why: "one string"},
	"internal/keyring": {
		ours:   []string{"config/secret", "internal/backoff", "internal/filelock", "internal/seal"},
		others: []string{"github.com/zalando/go-keyring", "github.com/godbus/dbus/v5"},
		why:    "where a secret is kept does not depend on who needs it; the drivers stay here",
	},
	"internal/seal": {
		others: []string{"golang.org/x/crypto"},
		why:    "what is sealed depends on nobody who seals it; x/crypto has the cipher",
	},
	"internal/cluster": {
		ours:   []string{"internal/backoff", "internal/mcp", "internal/seal", "internal/store", "proxy/replica"},
		others: []string{"golang.org/x/sys"},
		why:    "passes requests on as bytes; it knows neither sessions nor the gate",
	},
	"internal/batch":  {why: "what is gathered is handed in"},
	"internal/cancel": {why: "a context knows no more than its parent"},
	"internal/headroom": {
		ours:   []string{"config/units"},
		others: []string{"golang.org/x/sys"},
		why:    "reads what the machine has left; what follows from that is decided elsewhere; x/sys knows the disk",
	},
	"internal/telemetry": {
		ours:   []string{"config/secret", "config/tree"},
		others: []string{"github.com/prometheus/client_golang", "go.opentelemetry.io/otel", "go.opentelemetry.io/contrib/bridges/prometheus"},
		why:    "metrics and traces are recorded by everyone and depend on nobody",
	},
	"internal/feedback": {
		ours:   []string{"config/secret", "config/tree", "internal/backoff"},
		others: []string{"github.com/twmb/franz-go"},
		why:    "tells others of executions; the driver stays here, and nobody waits for it",
	},
	"internal/logs": {why: "what a line of the log may hold; who finds secrets in it is handed in"},
	"internal/child": {
		ours:   []string{"internal/failure", "internal/orphan"},
		others: []string{"golang.org/x/sys"},
		why:    "starts, watches and ends processes, whatever they are for; x/sys has the groups of Unix and the jobs of Windows",
	},
	"internal/orphan": {
		ours:   []string{"internal/backoff", "internal/orphan/guardian"},
		others: []string{"golang.org/x/sys"},
		why:    "ends what a killed gateway has started, whatever that is; x/sys has the jobs of Windows",
	},
	"internal/orphan/guardian": {
		others: []string{"golang.org/x/sys"},
		why:    "is entered before the rest of a program is initialised; x/sys tells processes apart where /proc does not",
	},
	"internal/sandbox": {
		ours:   []string{"internal/child", "internal/sandbox/shim"},
		others: []string{"golang.org/x/sys"},
		why:    "confines a process; what runs in it is not its business",
	},
	"internal/sandbox/shim": {
		why: "is entered before the rest of a program is initialised, so it waits for nothing",
	},
	"internal/terminal": {
		others: []string{"github.com/mattn/go-runewidth", "golang.org/x/sys/unix"},
		why:    "what a person sees depends on what a command writes alone; x/sys opens the pseudo-terminal, go-runewidth knows the width of a character",
	},
	"internal/picture": {
		ours: []string{"internal/terminal"},
		why:  "draws the picture of the README; it runs toolgate as a person would",
	},
	"internal/loopback":     {why: "names and addresses, whoever asks"},
	"internal/testbalancer": {why: "who is reached is handed in"},
	"internal/testport":     {why: "finds ports for programs that tests start"},
	"internal/testserver":   {why: "runs the servers that tests need"},
	"internal/raced":        {why: "knows how tests were compiled"},
	"internal/testwait":     {ours: []string{"internal/raced"}, why: "waits in tests for what is handed in, and knows how long that may take"},
	"internal/built":        {why: "builds programs of any package, and imports none"},

	"internal/crossvet": {others: []string{"golang.org/x/tools"}, why: "x/tools reads packages for another system, and has the analyzers of go vet"},

	"internal/bench": {
		ours:   []string{"gate/spicedb/spicedbtest", "internal/audit", "internal/bench/raw", "internal/built", "internal/mcp", "native/handshake"},
		others: []string{"github.com/golang-jwt/jwt/v5", "golang.org/x/sys"},
		why:    "measures whole programs, so that it puts no gateway together; it makes tokens and relations for them and reads their audit log; x/sys reads the clocks of processes",
	},
	"internal/bench/raw":    {others: []string{"golang.org/x/sys"}, why: "knows HTTP/1.1 and no MCP; x/sys has epoll"},
	"internal/e2e/...":      {ours: []string{anything}, others: []string{anything}, why: "tests whole programs"},
	"internal/matrix/...":   {ours: []string{anything}, others: []string{anything}, why: "tests every client revision through one gateway to every server revision"},
	"internal/depcheck/...": {ours: []string{anything}, others: []string{anything}, why: "looks at everything from outside"},
	"examples/...":          {ours: []string{anything}, others: []string{anything}, why: "shows how others use toolgate"},
}, daemonRules)

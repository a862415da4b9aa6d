package admin

import (
	_ "embed"
	"net/http"

	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/audit"
)

// endpoint describes one endpoint of the control protocol. [endpoints] is the source of
// openapi.json, which a test writes.
type endpoint struct {
	pattern string
	does    string
	// query and header are names of parameters, separated by spaces. A name may end with
	// the type of its value, such as limit:integer.
	query, header string
	in, out       any // values of the types of the bodies; nil for none
	// local tells that only the control socket has it, see [Remote].
	local bool
}

// Answers that have no type of their own.
type (
	// done is the answer to what was done and has no result.
	done struct{}
	// problem is every answer that is not 200.
	problem struct {
		Error string `json:"error"`
		// Problems are those of values that do not fit a schema.
		Problems []TryProblem `json:"problems,omitempty"`
		More     int          `json:"more,omitempty"`
	}
	usageAnswer struct {
		Usage []ToolUsage `json:"usage"`
	}
	breakersAnswer struct {
		Breakers []Breaker `json:"breakers"`
	}
	replicasAnswer struct {
		Replicas []Replica `json:"replicas"`
	}
	rebuiltAnswer struct {
		Did string `json:"did"`
	}
	linkAnswer struct {
		URL string `json:"url"`
	}
)

const (
	ofServer  = "server issuer tenant subject"
	ofAssumed = " assume issuer tenant subject persona group scope plan"
	ofCatalog = "name kind"
)

// endpoints are all endpoints of the control protocol. A handler for another pattern cannot
// be registered.
var endpoints = []endpoint{
	{pattern: "GET /openapi.json", does: "This description.", out: map[string]any{}},
	{pattern: "GET /v1/status", does: "The state of the gateway and of its servers.", out: Status{}},
	{pattern: "POST /v1/reload", does: "Reads the configuration again.", out: Reloaded{}},
	{pattern: "POST /v1/make-room", does: "Ends the gateway soon, so that another one can take over.", out: done{}},
	{pattern: "POST /v1/stdio", does: "Turns the connection into one on which a client speaks MCP line by line.", header: headerAPIKey + " " + headerView, local: true},

	{pattern: "GET /v1/why", does: "Why a caller may see or call something, phase by phase.", query: "name as capsule args" + ofAssumed, out: Why{}},
	{pattern: "GET /v1/who-can", does: "Which known callers may use something.", query: "name" + ofAssumed, out: []WhoCan{}},
	{pattern: "GET /v1/policy", does: "The modules of the Rego policy in force.", out: Policy{}},
	{pattern: "POST /v1/policy/replay", does: "Decides recorded calls again with other modules, and changes nothing.", in: PolicyReplay{}, out: PolicyReplayed{}},
	{pattern: "POST /v1/find", does: "How the tools that a caller sees rank for some queries.", in: FindQuestion{}, out: Ranked{}},
	{pattern: "GET /v1/find/searches", does: "Searches that ended in a successful call, the latest first.", query: "since limit:integer", out: []Search{}},
	{pattern: "POST /v1/find/train", does: "Learns from the searches of callers.", in: TrainQuestion{}, out: []Trained{}},
	{pattern: "POST /v1/find/forget", does: "Forgets the searches of a tenant.", in: TrainQuestion{}, out: Forgotten{}},

	{pattern: "GET /v1/catalog", does: "The catalog, sorted by name.", query: "server kind state category provider source class risk mode", out: []CatalogEntry{}},
	{pattern: "GET /v1/catalog/entry", does: "One capability with its definitions.", query: ofCatalog, out: CatalogEntry{}},
	{pattern: "GET /v1/catalog/history", does: "The accepted definitions of a capability, the latest first.", query: ofCatalog, out: []AcceptedDefinition{}},
	{pattern: "POST /v1/catalog/change", does: "Changes one capability.", in: CatalogChange{}, out: CatalogEntry{}},
	{pattern: "POST /v1/catalog/seed", does: "Applies a seed file.", in: CatalogSeed{}, out: CatalogSeeded{}},
	{pattern: "GET /v1/capabilities", does: "Everything that the gateway exposes, whoever may see it.", out: []Capability{}},

	{pattern: "GET /v1/mode", does: "The operating mode.", out: Mode{}},
	{pattern: "POST /v1/mode", does: "Sets the operating mode.", query: "mode reason", out: Mode{}},
	{pattern: "GET /v1/replicas", does: "The gateways that share the database; none for a gateway alone.", out: replicasAnswer{}},
	{pattern: "POST /v1/servers/{name}/restart", does: "Starts a server again.", out: done{}},
	{pattern: "GET /v1/breakers", does: "The circuit breakers.", out: breakersAnswer{}},
	{pattern: "POST /v1/breakers/reset", does: "Closes the breaker of a tool, or all of a server.", query: "server tool", out: breakersAnswer{}},

	{pattern: "GET /v1/approvals", does: "Questions to people about calls.", query: "state", out: []approval.Item{}},
	{pattern: "GET /v1/approvals/{id}", does: "One question.", out: approval.Item{}},
	{pattern: "POST /v1/approvals/{id}/approve", does: "Approves a call.", query: "reason hash", header: headerAPIKey, out: approval.Item{}},
	{pattern: "POST /v1/approvals/{id}/deny", does: "Denies a call.", query: "reason hash", header: headerAPIKey, out: approval.Item{}},
	{pattern: "POST /v1/approvals/{id}/retract", does: "Takes a denial back.", query: "reason hash", header: headerAPIKey, out: approval.Item{}},

	{pattern: "GET /v1/usage", does: "What was executed since a time, grouped.", query: "since by", out: usageAnswer{}},
	{pattern: "GET /v1/budgets", does: "The usage of budgets.", query: "budget key", out: []BudgetUse{}},
	{pattern: "POST /v1/budgets/rebuild", does: "Makes a store usable that has lost its counters.", out: rebuiltAnswer{}},
	{pattern: "GET /v1/activity", does: "What the gateway has done since it started.", out: Activity{}},
	{pattern: "GET /v1/logs", does: "The end of what the process of a server wrote.", query: "server previous:boolean", out: ServerLogs{}},

	{pattern: "GET /v1/calls", does: "Closed calls, the latest first.", query: "server tool tenant error principal since before row:integer limit:integer", out: []Call{}},
	{pattern: "GET /v1/calls/over", does: "The number of calls in steps of time.", query: "since step", out: []CallBucket{}},
	{pattern: "GET /v1/calls/live", does: "Calls that have just ended.", query: "after:integer", out: LiveCalls{}},
	{pattern: "GET /v1/audit", does: "The last entries of the audit log that match a query.", query: "q limit:integer", out: AuditFound{}},
	{pattern: "GET /v1/audit/calls/{id}", does: "The entries of one call.", out: AuditFound{}},
	{pattern: "GET /v1/audit/verify", does: "Everything in the audit log that is not as the gateway wrote it.", out: &audit.Report{}},

	{pattern: "GET /v1/logins", does: "Who is signed in to which server, or has to sign in.", out: []Login{}},
	{pattern: "POST /v1/logins/begin", does: "Begins a login.", query: ofServer, out: Begun{}},
	{pattern: "POST /v1/logins/finish", does: "Finishes a login by the address that a browser was sent back to.", header: headerSecret, out: done{}},
	{pattern: "POST /v1/logins/key", does: "Keeps a key for a server.", query: ofServer, header: headerSecret, out: done{}},
	{pattern: "POST /v1/logins/end", does: "Deletes a credential, and tells whether there was one.", query: ofServer, out: false},

	{pattern: "GET /v1/servers", does: "Servers that were added at run time.", out: []AddedServer{}},
	{pattern: "POST /v1/servers/{name}/promote", does: "Makes an added server available to everyone.", query: "reason", out: done{}},
	{pattern: "POST /v1/servers/{name}/remove", does: "Removes an added server.", out: done{}},
	{pattern: "GET /v1/declared", does: "Tools that are declared in the store.", out: []DeclaredTool{}},
	{pattern: "POST /v1/declared", does: "Declares the tools of a document.", in: Declaration{}, out: Declared{}},
	{pattern: "POST /v1/declared/{name}/remove", does: "Removes a declared tool.", query: "reason", out: done{}},
	{pattern: "GET /v1/dynamic", does: "Tools that callers have registered.", out: []DynamicTool{}},
	{pattern: "POST /v1/dynamic/{name}/remove", does: "Removes a registered tool.", query: "reason", out: done{}},

	{pattern: "GET /v1/runs", does: "Runs of agents, the latest first.", query: "state principal before id limit:integer", out: []Run{}},
	{pattern: "GET /v1/runs/{id}", does: "One run with its steps.", query: "principal", out: RunDetails{}},
	{pattern: "POST /v1/runs/{id}/cancel", does: "Cancels a run.", out: done{}},

	{pattern: "GET /v1/jobs", does: "Calls of this gateway that are in queues for workers, the oldest first.", query: "principal after id limit:integer", out: []Job{}},

	{pattern: "GET " + triesPath + "/tools", does: "Tools that a caller sees.", query: "session", header: headerAPIKey, out: []TryTool{}, local: true},
	{pattern: "GET " + triesPath + "/tool", does: "One of them, with its definition.", query: "session name", header: headerAPIKey, out: TryTool{}, local: true},
	{pattern: "GET " + triesPath, does: "The recent calls of a session by hand.", query: "session", header: headerAPIKey, out: []Try{}, local: true},
	{pattern: "POST " + triesPath, does: "Begins a call by hand.", query: "session", header: headerAPIKey, in: NewTry{}, out: Try{}, local: true},
	{pattern: "GET " + triesPath + "/{id}", does: "One call by hand, once it has changed.", query: "session after:integer", header: headerAPIKey, out: Try{}, local: true},
	{pattern: "POST " + triesPath + "/{id}/answer", does: "Answers what a tool asks.", query: "session", header: headerAPIKey, in: TryAnswer{}, out: done{}, local: true},
	{pattern: "POST " + triesPath + "/{id}/cancel", does: "Ends a call by hand.", query: "session", header: headerAPIKey, out: done{}, local: true},
	{pattern: "POST " + consolePath, does: "A link that signs one browser in to the console.", out: linkAnswer{}, local: true},
}

// described has the patterns of [endpoints].
var described = func() map[string]bool {
	all := map[string]bool{}
	for i := range endpoints {
		all[endpoints[i].pattern] = true
	}
	return all
}()

// router is a mux that takes the patterns of [endpoints] alone.
type router struct {
	mux        *http.ServeMux
	registered []string
}

// HandleFunc registers the handler of an endpoint. It panics for one that is not described.
func (r *router) HandleFunc(pattern string, h http.HandlerFunc) {
	if !described[pattern] {
		panic("admin: no endpoint is described for " + pattern)
	}
	r.registered = append(r.registered, pattern)
	r.mux.HandleFunc(pattern, h)
}

//go:embed openapi.json
var openAPI []byte

// serveOpenAPI answers with the description of the control protocol.
func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI)
}

package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/replica"
	"github.com/toolgate/toolgate/proxy/result"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// Backend is an upstream server or the native host. It is safe for concurrent use.
type Backend interface {
	// Name is the backend's key in the configuration.
	Name() string
	// Listing returns what the backend offers, nil while that is unknown, and its
	// state. It does not block.
	Listing() (*mcp.Listing, mcp.Status)
	// Call sends one request. Every error except the cause of an ended context is a
	// [mcp.Failure].
	Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error)
	// Probe checks whether the backend is alive, without running a tool.
	Probe(ctx context.Context) error
}

// SessionEnder is a [Backend] that keeps state per client session.
type SessionEnder interface {
	EndSession(principal, session string)
}

// ClientAware is a [Backend] that depends on the capabilities of connected clients.
type ClientAware interface {
	// Connected is given the principal and the capabilities, as raw JSON, of a new
	// client. It does not block.
	Connected(principal string, capabilities []byte)
}

// A guard passes on what its backend may need.
var (
	_ SessionEnder = (*guard.Guard)(nil)
	_ ClientAware  = (*guard.Guard)(nil)
)

// Auditor records one entry per call at its end, and one at its beginning if the call
// reaches a backend. It is safe for concurrent use and does not keep the entry.
type Auditor interface {
	// Begin records that a call is about to reach its backend. An error refuses the
	// call.
	Begin(*audit.Entry) error
	// End records the end of a call for which Begin was called. If End fails, the
	// record of Begin still shows the call.
	End(*audit.Entry) error
	// Append records a call for which Begin was not called. It is the only record of
	// that call.
	Append(*audit.Entry) error
	// Healthy returns why entries cannot be recorded. Calls are refused then where
	// every call must leave an entry.
	Healthy() error
}

// Authenticator finds out who sent an HTTP request.
type Authenticator interface {
	Authenticate(r *http.Request) (*gate.Identity, error)
}

// Lasting is an [Authenticator] whose answers expire.
type Lasting interface {
	// AuthenticateUntil is Authenticate that also returns when the answer expires; zero
	// means not before the configuration changes. Requests and streams that last longer
	// authenticate again then. They end when the answer is an error, another caller, or
	// the same caller with other rights.
	AuthenticateUntil(r *http.Request) (id *gate.Identity, until time.Time, err error)
}

// Knowing is an [Authenticator] that knows whose credentials were revoked.
type Knowing interface {
	// Knows reports whether a caller may still be who they were. Whether a token has
	// expired is decided when it comes again.
	Knows(id *gate.Identity) bool
}

// Resource is the gateway as an OAuth 2.1 protected resource. It is safe for concurrent
// use.
type Resource interface {
	// Refuse sets the headers of the response to a request that the [Authenticator] or
	// [ScopeChecker] refused with err. It returns the status (401, 403 or 503) and a
	// sentence for the client, which does not tell why a token is invalid.
	Refuse(h http.Header, r *http.Request, err error) (status int, text string)
	// Serves reports whether an escaped path is that of public metadata (RFC 9728
	// section 3). ServeHTTP serves such paths to everybody.
	Serves(path string) bool
	http.Handler
}

// ScopeChecker knows which OAuth scopes callers need. It is safe for concurrent use.
type ScopeChecker interface {
	// Check returns nil when an identity has the scopes to use something with these
	// names. A [Resource] renders any other error.
	Check(id *gate.Identity, names gate.Names) error
}

// CapabilityKey identifies an item that gets a capability id.
type CapabilityKey struct {
	Server, Kind, Original string
}

// Options configure a [Gateway]. Authenticator, Auditor, Keys and Logger are required.
type Options struct {
	Authenticator Authenticator
	Auditor       Auditor
	Keys          *seal.Keyring
	Logger        *slog.Logger
	Metrics       *Metrics // nil counts nothing
	Tracer        Tracer   // nil traces nothing
	Resource      Resource // nil publishes nothing, and challenges lead nowhere
	// Messages bounds the memory of messages from clients. nil stands for 16 times the
	// largest message.
	Messages *limit.Bytes

	// CapabilityIDs issues or finds the ids of capabilities, in the order of the keys.
	// nil leaves them empty.
	CapabilityIDs func(context.Context, []CapabilityKey) ([]string, error)

	// Replicas are the gateways that share the state. nil stands for this one alone.
	Replicas replica.Peers
	// Shared is where gateways count identical calls and failed authentications together.
	// nil counts those of this gateway alone.
	Shared *limit.Shared
	// SessionStates keeps what clients set for their sessions, for the replica that goes on
	// with one. nil keeps nothing.
	SessionStates replica.States
	// ListsChanged is called when lists of this gateway have changed; see [ChangedElsewhere].
	// nil stands for a gateway alone.
	ListsChanged func()
	// UseRound marks a round of a call as used and reports whether this was its first
	// use among all gateways that share the state. The mark is kept until the given
	// time. With nil each gateway keeps its own marks in memory.
	UseRound func(ctx context.Context, call string, round int, until time.Time) (first bool, err error)

	// FirstListTimedOut is given the servers that did not start before the first lists
	// were answered. It must not block. It may be nil.
	FirstListTimedOut func(servers []string)

	// Advisers know more than words tell of what searches find. The find view adds up what
	// they say.
	Advisers []find.Adviser
	// Indexed is told of each index of what can be found. It must not block. It may be nil.
	Indexed func(*find.Index)
	// Searched is told of each search that was answered. It must not block. It may be nil.
	Searched func(Searched)

	// NameHash is the hash by which policies look up names in their data; it has no
	// secret. Servers choose their names, and a lookup searches all names of one hash.
	// So a server may offer at most 8 names of one hash and kind; the rest is not
	// offered. nil means no limit.
	NameHash func(name string) int

	// Version is shown to clients and servers.
	Version string
	// PublicURL is where clients reach the gateway. It is empty when that is the
	// listener's address.
	PublicURL string
	// Hosts are accepted besides the loopback ones, Origins besides the gateway's own.
	// AnyHost disables the host check, for a listener that is not on loopback and
	// authenticates. LocalOrigins accepts every web page of this machine, for a
	// listener that authenticates.
	Hosts, Origins        []string
	AnyHost, LocalOrigins bool
	// Proxies are the reverse proxies that say whose requests they pass on.
	Proxies limit.Proxies

	Limits Limits
}

// Searched is a search that was answered. It must not be changed.
type Searched struct {
	Identity *gate.Identity
	Query    find.Query
	// View is what the caller could view. What of it was shown was asked about again.
	View  *find.View
	Shown []string // the names in the answer, as clients use them, best first
}

// ClientLimits are the settings of the section limits that bound what clients may use.
type ClientLimits struct {
	// Largest request body of a client. Default: 16MiB.
	Body units.Size `config:"body" default:"16MiB" min:"1KiB" max:"1GiB"`
	// Nesting depth of a message. Default: 128.
	Depth int `config:"depth" default:"128" min:"16" max:"1000"`
	// Sessions; an idle one is closed to make room for a new one. Default: 10000.
	Sessions int `config:"sessions" default:"10000" min:"1" max:"10000000"`
	// Sessions of one caller; the one that has been idle the longest is closed to make room for a new one. Default: 100.
	SessionsPerPrincipal int `config:"sessions_per_principal" default:"100" min:"1" max:"1000000"`
	// How long an unused session is kept at most. Default: 30m.
	Idle time.Duration `config:"idle" default:"30m" min:"1s" max:"30d"`
	// Concurrent requests of one session or connection. Default: 256.
	InFlight int `config:"in_flight" default:"256" min:"1" max:"100000"`
	// Items on one page of a list. Default: 1000.
	Page int `config:"page" default:"1000" min:"1" max:"1000000"`
	// How much of the instructions of one server is passed on. Default: 16KiB.
	Instructions units.Size `config:"instructions" default:"16KiB" min:"1KiB" max:"1MiB"`
	// Suspended calls of one caller, which wait for a client's answer. Default: 64.
	SuspendedPerPrincipal int `config:"parked_per_principal" default:"64" min:"1" max:"10000"`
	// Suspended calls to one server. Default: 256.
	SuspendedPerServer int `config:"parked_per_server" default:"256" min:"1" max:"100000"`
	// Calls that may wait for a client's answer to a question. Default: 10000.
	Rounds int `config:"rounds" default:"10000" min:"1" max:"10000000"`
	// How long a client may take to answer a question. Default: 15m.
	RoundTime time.Duration `config:"round_time" default:"15m" min:"1s" max:"7d"`
	// Total bytes of broken streams that are kept for clients that reconnect. Default: 64MiB.
	Replay units.Size `config:"replay" default:"64MiB" min:"1KiB" max:"16GiB"`
	// Tasks of legacy servers that are remembered for lists and notifications. Default: 10000.
	Tasks int `config:"tasks" default:"10000" min:"1" max:"10000000"`
}

// Limits bound what clients may use. Zero values stand for the defaults.
type Limits struct {
	ClientLimits
	result.StoreLimits

	Batch      int // messages of one 2025-03-26 batch; 100
	Listens    int // subscriptions per principal; 100
	Queue      int // messages waiting for a slow client; 1024
	QueueBytes int // bytes of them, beyond the first message; 4 MiB
	PageBytes  int // bytes of one list page; 4 MiB
	// FirstList is how long the first lists after the start wait for servers that are
	// still starting; 8 s, which is less than the shortest timeout of known clients. A
	// negative value disables the wait.
	FirstList time.Duration
	// JSONWait is how long a response is held back so that it can be sent as plain
	// JSON. KeepAlive is the interval of comments on a silent stream.
	JSONWait  time.Duration // 5 s
	KeepAlive time.Duration // 15 s
	// ReplayTime is how long the events of a broken stream are stored after its end; 60 s.
	ReplayTime time.Duration
	// RoundsPerPrincipal bounds the calls of one principal that wait for input from their
	// clients; 1000, but at least twice the number of its suspended calls. A suspended call
	// is one on which a legacy server still works.
	RoundsPerPrincipal int
	// TasksPerPrincipal bounds the remembered tasks of one principal; 1000. ListenTasks
	// bounds the tasks of one subscription; 64.
	TasksPerPrincipal, ListenTasks int
	// Watches bounds the resources of one subscriber; 1000. Questions bounds the
	// questions of a server during one call; 64.
	Watches, Questions int
	// NotificationsPerSecond bounds the progress and log messages of one call in a
	// second; 1000. Others are dropped.
	NotificationsPerSecond int
}

func (l Limits) withDefaults() Limits {
	decode.Fill(&l.ClientLimits)
	decode.Fill(&l.StoreLimits)
	num := func(v *int, to int) {
		if *v <= 0 {
			*v = to
		}
	}
	num(&l.Batch, 100)
	num(&l.Listens, 100)
	num(&l.Queue, 1024)
	num(&l.QueueBytes, 4<<20)
	num(&l.PageBytes, 4<<20)
	num(&l.RoundsPerPrincipal, max(1000, 2*l.SuspendedPerPrincipal))
	num(&l.TasksPerPrincipal, 1000)
	num(&l.ListenTasks, 64)
	num(&l.Watches, 1000)
	num(&l.Questions, 64)
	num(&l.NotificationsPerSecond, 1000)
	dur := func(v *time.Duration, to time.Duration) {
		if *v <= 0 {
			*v = to
		}
	}
	dur(&l.JSONWait, 5*time.Second)
	dur(&l.KeepAlive, 15*time.Second)
	dur(&l.ReplayTime, time.Minute)
	if l.FirstList == 0 {
		l.FirstList = 8 * time.Second
	}
	return l
}

func (o *Options) check() error {
	switch {
	case o.Authenticator == nil:
		return errors.New("a gateway needs an authenticator")
	case o.Auditor == nil:
		return errors.New("a gateway needs an auditor")
	case o.Keys == nil:
		return errors.New("a gateway needs keys for its seals")
	case o.Logger == nil:
		return errors.New("a gateway needs a logger")
	}
	return nil
}

// Mount is a backend with the settings of how it is exposed and used. It must not be
// changed once it is given to a [Gateway].
type Mount struct {
	Backend Backend
	// Native means that the backend is part of the gateway itself.
	Native bool
	// Added means that an agent has added the backend while the gateway runs.
	Added bool
	// MadeFrom says what the tools of an added backend are made from, by their names there.
	// An approval of a call holds for that alone. nil says nothing.
	MadeFrom map[string]string
	// SkipFirstListWait means that first lists waited in vain for the backend before
	// and do not wait again.
	SkipFirstListWait bool
	// Fetched means that the backend's program may be downloaded before it starts, as
	// npx and docker do. First lists wait for it even when other servers are known.
	Fetched bool
	// External names the tools of a native backend that another service answers, by
	// their name at the backend.
	External map[string]bool
	// Namespace is put before every name; empty exposes the names unchanged.
	Namespace string
	// Include and Exclude select the tools that are exposed; an empty Include means
	// all.
	Include, Exclude []string
	// Tools changes tools, by their name at the server.
	Tools map[string]ToolShape
	// Describe returns what clients see of a listed item beside what the backend lists.
	// listed is the item as the backend lists it. It is asked whenever a catalog is made,
	// after the registry has been told what is listed; another answer changes the lists.
	// nil adds nothing.
	Describe func(c *gate.Capability, listed []byte) Description
	// Concurrency bounds the calls that run at once, Queue the calls that wait; 32 and
	// 256 when zero.
	Concurrency, Queue int
	// Questions are what the server may ask clients.
	Questions Questions
	// Sampler answers the server's requests for sampling in place of its caller's client. It
	// bounds its own wait. nil asks clients.
	Sampler func(ctx context.Context, id *gate.Identity, params []byte) (result []byte, fault *mcp.Error)
	// URLHosts are the hosts to which the server may send a user. "*.example.com" means
	// any host below it; empty means any host.
	URLHosts []string
	// QuestionsPerHour bounds the questions of the server to one principal; 600 when
	// zero.
	QuestionsPerHour int
	// PerSession means that the backend keeps client sessions apart.
	PerSession bool
	// PerRights means that the backend keeps requests of one principal with different
	// rights apart (see [gate.Identity.Rights]).
	PerRights bool
	// Hard bounds the total time of one call; 30 minutes when zero. Result bounds the
	// size of a result in bytes; 32 MiB when zero. The backend observes both; budgets
	// reserve them.
	Hard   time.Duration
	Result int
	// Results are the rules for results of the server.
	Results result.Rules
	// SignIn returns where callers sign in to the server; nil means nowhere.
	SignIn SignIn
	// SignInTool is the definition of the tool that starts a sign-in while nothing else
	// is listed, as the backend lists it; nil means none.
	SignInTool []byte
	// Await waits until the caller's lists are known; nil waits for nothing. Listed
	// reports whether something is listed to a caller already, so that there is nothing
	// to wait for; nil means never.
	Await  Await
	Listed func(id *gate.Identity, kind mcp.Kind, original string) bool
	// Unfit returns what is wrong with the arguments of a call of a tool of the backend,
	// in a sentence for the caller; empty if they fit. It is asked after the schema and
	// the rules, and before anybody is asked for an approval. arguments are the final
	// ones, nil where there are none. nil means that all fit.
	Unfit func(ctx context.Context, tool string, arguments []byte) string
	// ListsServed is called when a caller is shown lists with items of the backend, so
	// that the backend can check whether they are still true. It must not block. It may
	// be nil.
	ListsServed func(id *gate.Identity)
}

// Questions are the kinds of requests that a server may send to clients. The zero value
// allows none.
type Questions struct {
	Sampling, Elicitation, Roots bool
}

// Config is one generation of what the gateway serves.
type Config struct {
	Mounts  []Mount
	Chain   *gate.Chain
	Limiter *budget.Limiter
	// Interceptors look at calls and their results; nil are none.
	Interceptors *intercept.Chain
	// Rates limit how often calls may be made; nil means no limit.
	Rates RateLimiter
	// Requests limit how often clients may send requests that are no calls.
	Requests limit.Rates
	// IdenticalCalls is how often in a row a principal may make the same call of the
	// same tool; zero means no limit.
	IdenticalCalls int
	// CallsPerPrincipal bounds the concurrent calls of one principal at all servers
	// together. Others wait. Zero means no limit.
	CallsPerPrincipal int
	// Class returns the effective class of a tool for budgets, one word. listed is the
	// definition of its server. nil knows no classes.
	Class func(r gate.Request, listed []byte) string
	// Reusable knows whose results may be reused; nil means none.
	Reusable Reusable
	// Capsules knows who has the endpoint of which capsule; nil means nobody.
	Capsules CapsuleHolder
	// Pins returns the exposed names of the tools that the find view of a capsule lists
	// beside its own, sorted. An empty name is that of the endpoints without a capsule.
	// nil pins nothing.
	Pins func(capsule string) []string
	// AnswerTokens is about how many tokens an answer of a search has at most; 1500 when
	// zero.
	AnswerTokens int
	// Schemas is how schemas of tools are listed where an endpoint does not say it; empty
	// is verbatim.
	Schemas schemas.Mode
	// Offered is given the offers of all servers once it is known what interceptors
	// withhold, and before anything is decided by that. It does not block. It may be nil.
	Offered func(offers []*gate.Offer)
	// Listed is given all exposed names before a catalog with other names is served. It
	// does not block. It may be nil.
	Listed func(names []string)
	// Scopes are checked after the view decision; nil requires none.
	Scopes ScopeChecker
	// Registry is told what the servers list before a catalog with it is served. It may
	// be nil.
	Registry Registry
	// Arguments checks calls and their arguments; nil checks nothing.
	Arguments ArgumentChecker
	// Outputs checks the structured content of tools where the rules of a mount demand
	// it; nil checks nothing.
	Outputs result.OutputChecker
	// Dependencies returns what the gateway needs to decide calls. /readyz fails while
	// one of them is missing. It does not block. It may be nil.
	Dependencies func() []Dependency
	// Swap must call inForce once, which puts a catalog and this configuration into
	// force. It can change other things at the same moment. nil only calls inForce.
	Swap func(inForce func())
	// Recording configures what the audit entries of calls hold.
	Recording Recording
	// Approver asks people about calls. With nil, calls that need an approval are
	// refused.
	Approver Approver

	generation uint64 // its number, set by [Gateway.Apply]
}

// RateLimiter limits how often calls may be made. It is safe for concurrent use and
// bounds its own waits.
type RateLimiter interface {
	// Begin counts a call at this gateway. [rate.Taking.End] counts it where gateways
	// count together, and returns a [*rate.Refusal] or another error for a call that is
	// refused.
	Begin(c *rate.Call) *rate.Taking
	// Look returns what End would, without counting.
	Look(ctx context.Context, c *rate.Call) error
}

// Registry records what the servers list. Its phase of the chain denies whatever it has
// not recorded or has not accepted.
type Registry interface {
	// Record is given the offers of all servers, including those that list nothing. An
	// unchanged offer is the same pointer as before. Record bounds its own waits.
	Record(ctx context.Context, offers []*gate.Offer)
	// ShowsInstructions reports whether a caller is shown the instructions of a server.
	// text is all of them.
	ShowsInstructions(id *gate.Identity, server, text string) bool
	// ShowsInstructionsToAll reports whether every caller is shown them.
	ShowsInstructionsToAll(server, text string) bool
	// Held reports whether the registry refuses a request only because the definition is
	// not accepted yet.
	Held(r *gate.Request) bool
}

// CapsuleHolder knows which identity holds which capsule. It returns false for a
// capsule that does not exist.
type CapsuleHolder interface {
	Holds(id *gate.Identity, name string) bool
	// Finds reports whether the endpoint of a capsule has the find view.
	Finds(name string) bool
}

// PendingCall is a call that has passed the gate and is not delivered yet.
type PendingCall struct {
	// Request is the question to the gate. Its Args are the final arguments of a tool
	// or prompt: a validated JSON object, nil where there are none.
	*gate.Request
	// Schema is the input schema of a tool as its server listed it; nil where there is
	// none.
	Schema []byte
	// Listed is the definition of what is called, as its server listed it; nil for a
	// resource that is not listed.
	Listed []byte
	// Queued means that the call does not start at once, because it becomes a task.
	Queued bool
	// Tool is true for tools/call only.
	Tool bool
	// Native means that the gateway itself runs what is called. Its schema can be
	// trusted: arguments must match it, whatever else is checked.
	Native bool
}

// ArgumentChecker checks a call against the tool's own input schema and the operator's
// rules. It is safe for concurrent use and bounds its own waits. An error is a
// [*refusal.Error]. The returned demands are approvals that the call needs.
type ArgumentChecker interface {
	CheckArguments(ctx context.Context, c PendingCall) ([]gate.Demand, error)
}

// Approver keeps the approval questions about calls, and their answers (ADR
// 0017). It is safe for concurrent use and bounds its own waits, except for Await,
// which ctx bounds as well.
type Approver interface {
	// Ask returns the grant, the denial in force or the open question of a call.
	// Without any it opens a question. It returns [gate.ErrTooManyQuestions] when the
	// caller has too many open ones.
	Ask(ctx context.Context, q *gate.Question) (gate.Approval, error)
	// Find returns what Ask would, without opening a question. ok is false where there
	// is nothing.
	Find(ctx context.Context, q *gate.Question) (a gate.Approval, ok bool, err error)
	// Await returns a question when it is decided, or when a call has waited for it
	// long enough.
	Await(ctx context.Context, id string) (gate.Approval, error)
	// Answer records the requester's answer to a question and returns the question.
	Answer(ctx context.Context, q *gate.Question, id string, grant bool) (gate.Approval, error)
	// Use uses up the grant for a call and reports whether there was one.
	Use(ctx context.Context, q *gate.Question) (bool, error)
}

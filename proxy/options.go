package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/result"
)

// Backend is what an upstream server and the native host both are. It is safe
// for concurrent use.
type Backend interface {
	// Name is the backend's key in the configuration.
	Name() string
	// Listing returns what the backend offers, nil while nothing is known, and
	// the state that it is in. It does not block.
	Listing() (*mcp.Listing, mcp.Status)
	// Call carries one request. Every error but the cause of an ended context
	// is a [mcp.Failure].
	Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error)
	// Probe asks whether the backend is alive, without running a tool.
	Probe(ctx context.Context) error
}

// SessionEnder is a [Backend] that keeps something per client session.
type SessionEnder interface {
	EndSession(principal, session string)
}

// ClientAware is a [Backend] that wants to know what the clients that connect
// declare.
type ClientAware interface {
	// Connected takes the capabilities of a client, raw. It does not block.
	Connected(capabilities []byte)
}

// Auditor takes one closed entry per call, and one of its beginning where it
// reaches a backend. It is safe for concurrent use and does not keep the entry.
type Auditor interface {
	// Begin notes that a call is about to reach its backend; an error refuses
	// it.
	Begin(*audit.Entry) error
	// End notes how a call has ended that began. Where it is lost, what Begin
	// noted tells of the call.
	End(*audit.Entry) error
	// Append notes how a call has ended that did not begin: nothing else tells
	// of it.
	Append(*audit.Entry) error
	// Healthy returns why entries cannot be kept, so that calls are refused
	// where every call must leave one.
	Healthy() error
}

// Authenticator finds out who sent an HTTP request.
type Authenticator interface {
	Authenticate(r *http.Request) (*gate.Identity, error)
}

// Lasting is an [Authenticator] whose answers do not stand for ever.
type Lasting interface {
	// AuthenticateUntil is Authenticate with the time until which the answer
	// stands; zero is for as long as the configuration does. Whatever outlives
	// its request asks again then, about the same request, and ends when the
	// answer is an error, another caller, or the same with other rights.
	AuthenticateUntil(r *http.Request) (id *gate.Identity, until time.Time, err error)
}

// Resource is the gateway as an OAuth 2.1 protected resource. It is safe for
// concurrent use.
type Resource interface {
	// Refuse sets the headers of the answer to a request that was refused with
	// an error of the [Authenticator] or of the [ScopeChecker]. It returns the
	// status, 401, 403 or 503, and a sentence for the client that tells nothing
	// of why a token is bad.
	Refuse(h http.Header, r *http.Request, err error) (status int, text string)
	// Serves tells whether a path, in its written form, is that of public
	// metadata (RFC 9728 section 3), which ServeHTTP then answers to everybody.
	Serves(path string) bool
	http.Handler
}

// ScopeChecker tells which scopes callers need besides being allowed. It is safe
// for concurrent use.
type ScopeChecker interface {
	// Check returns nil where an identity has the scopes to use what has some
	// names, else an error that a [Resource] answers.
	Check(id *gate.Identity, names gate.Names) error
}

// CapabilityKey is what a capability id is issued for.
type CapabilityKey struct {
	Server, Kind, Original string
}

// Options are what a [Gateway] is made of. Authenticator, Auditor, Keys and
// Logger are required.
type Options struct {
	Authenticator Authenticator
	Auditor       Auditor
	Keys          *seal.Keyring
	Logger        *slog.Logger
	Metrics       *Metrics // nil counts nothing
	Tracer        Tracer   // nil traces nothing
	Resource      Resource // nil publishes nothing, and its challenges lead nowhere
	// Messages bounds the memory of the messages of clients; nil makes one of 16
	// of the largest.
	Messages *limit.Bytes

	// CapabilityIDs issues or finds the ids of capabilities, in the order of
	// the keys; nil leaves them empty.
	CapabilityIDs func(context.Context, []CapabilityKey) ([]string, error)

	// UseRound notes that a round of a call is used and tells whether this was
	// its first use, at whichever gateway that shares the memory of it. It is
	// remembered until the time. Nil leaves each gateway with its own memory,
	// which ends with it.
	UseRound func(ctx context.Context, call string, round int, until time.Time) (first bool, err error)

	// FirstListTimedOut is told the servers for which first lists were held back in vain. It
	// must not block. Nil: nobody is.
	FirstListTimedOut func(servers []string)

	// NameHash is the hash by which policies find a name in their data, without a
	// secret. A server chooses its names, and whoever looks for one of them looks
	// through all of one hash: of each kind it may offer 8 of one hash, and what it lists
	// besides is not offered. Nil bounds nothing.
	NameHash func(name string) int

	// Version is shown to clients and servers.
	Version string
	// PublicURL is where clients reach the gateway, empty when that is where
	// it listens.
	PublicURL string
	// Hosts are accepted besides the loopback ones, Origins besides the gateway's
	// own. AnyHost switches the host check off, for a listener that is not on loopback
	// and authenticates. LocalOrigins accepts every page of this machine, for one that
	// authenticates.
	Hosts, Origins        []string
	AnyHost, LocalOrigins bool

	Limits Limits
}

// Limits bound what clients may use. Zero values are replaced by the defaults.
type Limits struct {
	Body                 int           // bytes of one HTTP body or line; 16 MiB
	Depth                int           // nesting of one message; mcp.DefaultDepth
	Sessions             int           // legacy sessions in all; 10000
	SessionsPerPrincipal int           // legacy sessions of one principal; 100
	Idle                 time.Duration // until an unused session ends; 30 min
	InFlight             int           // requests in flight per connection; 256
	Batch                int           // messages of one 2025-03-26 batch; 100
	Listens              int           // subscriptions per principal; 100
	Queue                int           // messages waiting for a slow client; 1024
	QueueBytes           int           // bytes of them, beyond the first message; 4 MiB
	Page                 int           // items of one list page; 1000
	PageBytes            int           // bytes of one list page; 4 MiB
	// FirstList is how long the first lists after the start wait at most for servers
	// of which nothing is known yet; 8 s, less than the clients bear that give up
	// first. Negative means not at all.
	FirstList time.Duration
	// JSONWait is how long an answer is held back so that it can be sent as
	// plain JSON; KeepAlive the pause between comments on a silent stream.
	JSONWait  time.Duration // 5 s
	KeepAlive time.Duration // 15 s
	// RoundTime is how long a client may take to answer an input request.
	RoundTime time.Duration // 15 min
	// Replay is how many bytes of broken streams are kept in all for clients
	// that come back; 64 MiB. ReplayTime is how long after their end; 60 s.
	Replay     int
	ReplayTime time.Duration
	// Rounds is how many calls may wait for such an answer; 10000 in all,
	// 1000 of one principal, or twice as many as may be parked. Parked ones are those on which a legacy server
	// still works: 8 of one principal, 256 at one server.
	Rounds, RoundsPerPrincipal          int
	ParkedPerPrincipal, ParkedPerServer int
	// Tasks is how many tasks of legacy servers are remembered for lists and
	// notifications; 10000 in all, 1000 of one principal. ListenTasks is how
	// many a subscription may follow; 64.
	Tasks, TasksPerPrincipal, ListenTasks int
	// Watches is how many resources one subscriber follows; 1000. Questions is
	// how many a server may ask during one call; 64.
	Watches, Questions int
	// Instructions is how many bytes of what one server says of itself are
	// passed on; 16 KiB.
	Instructions int
	// NotificationsPerSecond is how many progress and log messages of one call
	// are passed on in a second; 1000. Others are dropped.
	NotificationsPerSecond int
	// KeptResults is how many bytes of results that were too large are kept as
	// resources in all, KeptResultsPerPrincipal those of one principal, and
	// KeptResultsTime for how long; 64 MiB, 16 MiB, 15 min.
	KeptResults, KeptResultsPerPrincipal int
	KeptResultsTime                      time.Duration
}

func (l Limits) withDefaults() Limits {
	num := func(v *int, to int) {
		if *v <= 0 {
			*v = to
		}
	}
	num(&l.Body, 16<<20)
	num(&l.Depth, mcp.DefaultDepth)
	num(&l.Sessions, 10000)
	num(&l.SessionsPerPrincipal, 100)
	num(&l.InFlight, 256)
	num(&l.Batch, 100)
	num(&l.Listens, 100)
	num(&l.Queue, 1024)
	num(&l.QueueBytes, 4<<20)
	num(&l.Page, 1000)
	num(&l.PageBytes, 4<<20)
	num(&l.Rounds, 10000)
	num(&l.ParkedPerPrincipal, 64)
	num(&l.RoundsPerPrincipal, max(1000, 2*l.ParkedPerPrincipal))
	num(&l.ParkedPerServer, 256)
	num(&l.Tasks, 10000)
	num(&l.TasksPerPrincipal, 1000)
	num(&l.ListenTasks, 64)
	num(&l.Replay, 64<<20)
	num(&l.Watches, 1000)
	num(&l.Questions, 64)
	num(&l.Instructions, 16<<10)
	num(&l.NotificationsPerSecond, 1000)
	num(&l.KeptResults, 64<<20)
	num(&l.KeptResultsPerPrincipal, 16<<20)
	dur := func(v *time.Duration, to time.Duration) {
		if *v <= 0 {
			*v = to
		}
	}
	dur(&l.Idle, 30*time.Minute)
	dur(&l.JSONWait, 5*time.Second)
	dur(&l.KeepAlive, 15*time.Second)
	dur(&l.RoundTime, 15*time.Minute)
	dur(&l.ReplayTime, time.Minute)
	dur(&l.KeptResultsTime, 15*time.Minute)
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

// Mount is a backend with how it is shown and used. It is not changed once it
// is given to a [Gateway].
type Mount struct {
	Backend Backend
	// Native tells that the backend is a part of the gateway itself.
	Native bool
	// SkipFirstListWait tells that the backend was waited for in vain before: first lists do
	// not wait for it again.
	SkipFirstListWait bool
	// Fetched tells that the backend's program may be downloaded before it starts, as
	// npx and docker do: a first list that has something already still waits for it.
	Fetched bool
	// External names the tools, by their name at the backend, that another service
	// answers, of a backend that is a part of the gateway.
	External map[string]bool
	// Namespace goes in front of every name; empty shows the backend as it is.
	Namespace string
	// Include and Exclude name the tools to show; an empty Include is all.
	Include, Exclude []string
	// Tools shapes tools by their name at the server.
	Tools map[string]ToolShape
	// Concurrency is how many calls may run at once, Queue how many may wait;
	// 32 and 256 when zero.
	Concurrency, Queue int
	// Questions says what the server may ask clients.
	Questions Questions
	// URLHosts are the hosts that the server may send a user to, where
	// "*.example.com" is any below it; empty is any.
	URLHosts []string
	// QuestionsPerHour is how many questions may reach one principal; 600 when
	// zero.
	QuestionsPerHour int
	// PerSession tells that the backend keeps client sessions apart.
	PerSession bool
	// PerRights tells that the backend keeps requests of one principal with
	// different rights apart (see [gate.Identity.Rights]).
	PerRights bool
	// Hard bounds all that is done for one call, whatever happens; 30 minutes when
	// zero. Result is how large a result may be, in bytes; 32 MiB when zero. The
	// backend keeps to both; budgets reserve them.
	Hard   time.Duration
	Result int
	// Results say what is done with what the server answers.
	Results result.Rules
	// SignIn sends callers to where they sign in to the server; nil sends nobody.
	SignIn SignIn
	// SignInTool is the definition of the tool by whose call that happens while nothing
	// else is listed, as the backend lists it; nil is none.
	SignInTool []byte
	// Await waits for what callers are about to be listed; nil waits for nothing.
	// Listed tells whether something is listed to a caller already, so that there is
	// nothing to wait for; nil knows of nothing.
	Await  Await
	Listed func(id *gate.Identity, kind mcp.Kind, original string) bool
	// ListsServed is told that a caller is shown lists that hold the backend's, so that it
	// may find out whether they are still true. It must not block; nil is told nothing.
	ListsServed func(id *gate.Identity)
}

// Questions is what a server may ask of clients. The zero value allows
// nothing.
type Questions struct {
	Sampling, Elicitation, Roots bool
}

// Config is one generation of what the gateway serves.
type Config struct {
	Mounts  []Mount
	Chain   *gate.Chain
	Limiter *budget.Limiter
	// Rates say how often calls may be made; nil is as often as one likes.
	Rates RateLimiter
	// Requests are how often clients may send what is no call.
	Requests limit.Rates
	// IdenticalCalls is how often a principal may make the same call of the same
	// tool in a row; zero for any number.
	IdenticalCalls int
	// CallsPerPrincipal is how many calls of one principal may run at once, at
	// all servers together; others wait for their turn. Zero is no bound.
	CallsPerPrincipal int
	// Class returns the effective class of a tool as its server listed it, one
	// word, for budgets; nil knows none.
	Class func(r gate.Request, listed []byte) string
	// Capsules tells who has which capsule's endpoint; nil is nobody.
	Capsules CapsuleHolder
	// Listed is told the exposed names of everything before a catalog is served
	// in which they are others; nil is nobody. It does not block.
	Listed func(names []string)
	// Scopes are asked for behind the view decision; nil asks for none.
	Scopes ScopeChecker
	// Registry is told what the servers list before a catalog is served with
	// it; nil is nobody.
	Registry Registry
	// Arguments checks calls and what they are made with; nil checks nothing.
	Arguments ArgumentChecker
	// Outputs checks the structured content of tools where the rules of a mount
	// want that; nil checks nothing.
	Outputs result.OutputChecker
	// Dependencies returns what the gateway needs to decide, each with whether it is
	// there; one that is not makes /readyz red. It does not block. Nil is nothing.
	Dependencies func() []Dependency
	// Swap is given what puts a catalog, and with it this configuration, in force,
	// and calls it once: what has to change at the same moment is changed beside.
	// Nil calls it alone.
	Swap func(inForce func())
	// Recording says what is kept of calls.
	Recording Recording
	// Approver asks people about calls; nil asks nobody, and what needs an
	// approval is refused.
	Approver Approver
}

// RateLimiter says how often calls may be made. It is safe for concurrent use and
// bounds its own waits.
type RateLimiter interface {
	// Take counts a call, or returns a [*rate.Refusal]; any other error refuses
	// too.
	Take(ctx context.Context, c *rate.Call) error
	// Look returns what Take would, and counts nothing.
	Look(ctx context.Context, c *rate.Call) error
}

// Registry keeps account of what the servers list. What it has not recorded, or
// does not want to be served, its phase of the chain denies.
type Registry interface {
	// Record is told the offers of all servers, also of those that list nothing.
	// An offer that has not changed is the same pointer as before. It bounds its
	// own waits.
	Record(ctx context.Context, offers []*gate.Offer)
}

// InstructionsKeeper is a [Registry] that keeps account of what servers say of
// themselves, too.
type InstructionsKeeper interface {
	// ShowsInstructions tells whether a caller is told what a server says of
	// itself. The text is the whole of it.
	ShowsInstructions(id *gate.Identity, server, text string) bool
}

// CapsuleHolder tells whether an identity holds the capsule of a name. It is
// false for a capsule that does not exist.
type CapsuleHolder interface {
	Holds(id *gate.Identity, name string) bool
}

// PendingCall is a call that has passed the gate and is not yet delivered.
type PendingCall struct {
	// Request is what the gate was asked; its Args are the final arguments of a
	// tool or prompt, a validated JSON object, nil where there are none.
	*gate.Request
	// Schema is the input schema of a tool as its server listed it; nil where
	// there is none.
	Schema []byte
	// Listed is what is called as its server listed it; nil for a resource that
	// is not listed.
	Listed []byte
	// Queued calls do not start at once: those that are to be a task.
	Queued bool
	// Tool tells a tools/call from everything else.
	Tool bool
	// Native tells that the gateway itself runs what is called, so that its schema is
	// no stranger's word: whatever else is checked, arguments have to fit it.
	Native bool
}

// ArgumentChecker holds a call that may be made against the tool's own input
// schema and the operator's rules. It is safe for concurrent use and bounds its
// own waits. An error is a [*refusal.Error]; demands are of people who are to be asked
// first.
type ArgumentChecker interface {
	CheckArguments(ctx context.Context, c PendingCall) ([]gate.Demand, error)
}

// Approver keeps the questions about calls that need the approval of a person,
// and the answers (DESIGN 7, Approval). It is safe for concurrent use and bounds
// its own waits, except for Await, which the context bounds as well.
type Approver interface {
	// Ask returns the grant, the denial in force or the question that there is for
	// a call; if there is none it asks. It returns [gate.ErrTooManyQuestions] when the caller
	// has too many open.
	Ask(ctx context.Context, q *gate.Question) (gate.Approval, error)
	// Find returns what Ask would, without asking; ok is false where there is
	// nothing.
	Find(ctx context.Context, q *gate.Question) (a gate.Approval, ok bool, err error)
	// Await returns a question as it is when it has been decided, or when a call
	// has waited for that long enough.
	Await(ctx context.Context, id string) (gate.Approval, error)
	// Answer is the answer of the requester to the question, which is returned
	// as it is then.
	Answer(ctx context.Context, q *gate.Question, id string, grant bool) (gate.Approval, error)
	// Use uses the grant for a call up and tells whether there was one.
	Use(ctx context.Context, q *gate.Question) (bool, error)
}

package proxy

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// This file bounds what clients may send besides calls, and calls of what does
// not exist. The bounds are far above what clients do; they are there for those
// that run wild.

// Floods bound what one principal may send within a minute. Zero is no bound.
type Floods struct {
	Lists         int // requests for a page of a list
	Initializes   int // initialize, server/discover and HTTP+SSE streams
	Notifications int // of the client, without cancellations
	Cancels       int // cancellations
	Completions   int // completion/complete
	Unknown       int // calls of what does not exist for the caller
	// AuthFailures are requests of one address, or of one /64 network of IPv6,
	// whose caller is not known by what they show.
	AuthFailures int
	// IdenticalCalls is how often a principal may make the same call of the same
	// tool in a row.
	IdenticalCalls int
}

// flood is one kind of what may come too often, by the setting that bounds it.
type flood string

const (
	floodLists         flood = "lists_per_minute"
	floodInitializes   flood = "initializes_per_minute"
	floodNotifications flood = "notifications_per_minute"
	floodCancels       flood = "cancels_per_minute"
	floodCompletions   flood = "completions_per_minute"
	floodUnknown       flood = "unknown_per_minute"
	floodAuth          flood = "auth_failures_per_minute"
	floodIdentical     flood = "identical_calls"
)

// of is the bound of a kind.
func (f *Floods) of(kind flood) int {
	switch kind {
	case floodLists:
		return f.Lists
	case floodInitializes:
		return f.Initializes
	case floodNotifications:
		return f.Notifications
	case floodCancels:
		return f.Cancels
	case floodCompletions:
		return f.Completions
	case floodUnknown:
		return f.Unknown
	case floodAuth:
		return f.AuthFailures
	default:
		return f.IdenticalCalls
	}
}

// what names in a sentence what a kind bounds.
func (kind flood) what() string {
	switch kind {
	case floodLists:
		return "lists"
	case floodInitializes:
		return "new sessions"
	case floodNotifications:
		return "notifications"
	case floodCancels:
		return "cancellations"
	case floodCompletions:
		return "completions"
	case floodUnknown:
		return "calls of what does not exist"
	default:
		return "requests without a valid credential"
	}
}

// floodGate counts what comes. Its memory is bounded: see [rate.Local].
type floodGate struct {
	local *rate.Local

	mu     sync.Mutex
	logged map[flood]time.Time // when each was last logged
}

func newFloodGate() floodGate {
	return floodGate{local: rate.NewLocal(0), logged: make(map[flood]time.Time)}
}

// token is one of a kind for whoever is counted.
func (g *Gateway) token(kind flood, who string) (t rate.Token, bounded bool) {
	most := g.config.Load().Floods.of(kind)
	return rate.Token{Bucket: string(kind), Key: who, Rate: rate.Rate{Limit: int64(most), Window: time.Minute}}, most > 0
}

// within counts one of a kind for a principal; the error is its [*refusal.Error] when
// that is one too many.
func (g *Gateway) within(kind flood, principal string) error {
	t, bounded := g.token(kind, principal)
	if !bounded {
		return nil
	}
	if refused, wait := g.floods.local.Take(t); refused >= 0 {
		return g.tooMany(kind, principal, t.Rate.Limit, wait)
	}
	return nil
}

// tooMany is the refusal of one too many of a kind. The log has one line a
// minute of each kind, the metrics have all.
func (g *Gateway) tooMany(kind flood, who string, limit int64, wait time.Duration) *refusal.Error {
	g.opts.Metrics.limited(string(kind))
	g.floods.mu.Lock()
	now := time.Now()
	first := now.Sub(g.floods.logged[kind]) >= time.Minute
	if first {
		g.floods.logged[kind] = now
	}
	g.floods.mu.Unlock()
	if first {
		g.log.Warn("too many from one caller; more are refused", "limit", "limits."+string(kind), "per_minute", limit, "caller", who)
	}
	return refusal.TooOften(kind.what(), "limits."+string(kind), limit, wait)
}

// pace holds a call against the rates, and against the calls before it of the
// same caller. The rounds of a call are one.
func (g *Gateway) pace(ctx context.Context, x *Exchange, r *Route, rec *record, again *retry) error {
	if again != nil {
		return nil
	}
	if x.Message.Method == mcp.MethodComplete {
		return g.within(floodCompletions, x.Identity.Key())
	}
	if err := g.repeated(x, r, rec); err != nil {
		return err
	}
	rates := g.snapshot.Load().rates
	if rates == nil {
		return nil
	}
	return rates.Take(ctx, r.rated(x.Identity))
}

// rated is a call of somebody, as rates see it.
func (r *Route) rated(id *gate.Identity) *rate.Call {
	return &rate.Call{
		Principal: id.Key(), Tenant: id.Tenant, Persona: id.Persona,
		Server: r.Server, Kind: r.Kind.String(), Original: r.Original, Exposed: r.Exposed, Plain: r.Plain,
	}
}

// unknownTo is the answer for what does not exist for the caller, or the refusal
// of a caller who has asked for too much of that: what exists and is hidden is
// counted as what does not exist is.
func (g *Gateway) unknownTo(x *Exchange, kind mcp.Capability, name string) error {
	if err := g.within(floodUnknown, x.Identity.Key()); err != nil {
		return err
	}
	return unknown(x, kind, name)
}

// writeBusy answers an HTTP request of which there are too many, or for which
// there is no room. The error is a [*refusal.Error].
func writeBusy(w http.ResponseWriter, id mcp.ID, err error) {
	var e *refusal.Error
	if !errors.As(err, &e) {
		writeFault(w, http.StatusServiceUnavailable, id, asFault(err))
		return
	}
	status := http.StatusTooManyRequests
	if e.Unavailable {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Retry-After", strconv.FormatInt(int64(math.Ceil(e.RetryAfter.Seconds())), 10))
	writeFault(w, status, id, e.Fault())
}

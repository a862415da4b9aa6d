package limit

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// Rates are how many requests of a kind one principal may send within a minute,
// besides calls of what exists. They are far above what clients do and are there for
// clients that run wild. Zero is no bound.
type Rates struct {
	Lists         int // requests for a page of a list
	Initializes   int // initialize, server/discover and HTTP+SSE streams
	Notifications int // of the client, without cancellations
	Cancels       int // cancellations
	Completions   int // completion/complete
	Unknown       int // calls of what does not exist for the caller
	// AuthFailures are requests of one address, or of one /64 network of IPv6,
	// whose credential is missing or not valid; see [Failures].
	AuthFailures int
}

// Kind is a kind of request, by the setting that bounds it.
type Kind string

// The kinds of [Rates].
const (
	Lists         Kind = "lists_per_minute"
	Initializes   Kind = "initializes_per_minute"
	Notifications Kind = "notifications_per_minute"
	Cancels       Kind = "cancels_per_minute"
	Completions   Kind = "completions_per_minute"
	UnknownNames  Kind = "unknown_per_minute"
	AuthFailures  Kind = "auth_failures_per_minute"
)

// of is the bound of a kind.
func (r *Rates) of(kind Kind) int {
	switch kind {
	case Lists:
		return r.Lists
	case Initializes:
		return r.Initializes
	case Notifications:
		return r.Notifications
	case Cancels:
		return r.Cancels
	case Completions:
		return r.Completions
	case UnknownNames:
		return r.Unknown
	default:
		return r.AuthFailures
	}
}

// what names in a sentence what a kind bounds.
func (kind Kind) what() string {
	switch kind {
	case Lists:
		return "lists"
	case Initializes:
		return "new sessions"
	case Notifications:
		return "notifications"
	case Cancels:
		return "cancellations"
	case Completions:
		return "completions"
	case UnknownNames:
		return "calls of what does not exist"
	default:
		return "requests without a valid credential"
	}
}

// Requests holds what clients send against [Rates]. Its memory is bounded: see
// [rate.Local]. Make one with [NewRequests]. It is safe for concurrent use.
type Requests struct {
	log     *slog.Logger
	refused func(setting string)
	rates   atomic.Pointer[Rates]
	local   *rate.Local

	mu     sync.Mutex
	logged map[Kind]time.Time // when each was last logged
}

// NewRequests returns a limiter without bounds; see [Requests.Apply]. refused is
// called with the setting at each refusal and must not block.
func NewRequests(log *slog.Logger, refused func(setting string)) *Requests {
	l := &Requests{log: log, refused: refused, local: rate.NewLocal(0), logged: make(map[Kind]time.Time)}
	l.rates.Store(&Rates{})
	return l
}

// Apply sets the bounds. What has been counted stays counted.
func (l *Requests) Apply(rates Rates) { l.rates.Store(&rates) }

// Take counts one request of a kind. The error is a [*refusal.Error] when that is one
// too many.
func (l *Requests) Take(kind Kind, who string) error {
	t, bounded := l.token(kind, who)
	if !bounded {
		return nil
	}
	if over, wait := l.local.Take(t); over >= 0 {
		return l.tooMany(kind, t, wait)
	}
	return nil
}

// count is Take of what cannot be refused any more.
func (l *Requests) count(kind Kind, who string) {
	if t, bounded := l.token(kind, who); bounded {
		l.local.Take(t)
	}
}

// spent returns the refusal of one more request of a kind, nil where there is room. It
// counts nothing. What is refused anyway may still be let in: let tells so.
func (l *Requests) spent(kind Kind, who string, let func() bool) error {
	t, bounded := l.token(kind, who)
	if !bounded {
		return nil
	}
	over, wait := l.local.Wait(t)
	if over < 0 || let() {
		return nil
	}
	return l.tooMany(kind, t, wait)
}

// token is one request of a kind, in the form of the rates.
func (l *Requests) token(kind Kind, who string) (t rate.Token, bounded bool) {
	most := l.rates.Load().of(kind)
	return rate.Token{Bucket: string(kind), Key: who, Rate: rate.Rate{Limit: int64(most), Window: time.Minute}}, most > 0
}

// tooMany is the refusal of one too many of a kind. The log has one line a minute of
// each kind, the metrics have all.
func (l *Requests) tooMany(kind Kind, t rate.Token, wait time.Duration) *refusal.Error {
	setting := "limits." + string(kind)
	l.refused(string(kind))
	if l.logs(kind, time.Now()) {
		l.log.Warn("too many from one caller; more are refused", "limit", setting, "per_minute", t.Rate.Limit, "caller", t.Key)
	}
	return refusal.TooOften(kind.what(), setting, t.Rate.Limit, wait)
}

// logs tells whether a refusal of a kind gets a line of the log.
func (l *Requests) logs(kind Kind, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.logged[kind]) < time.Minute {
		return false
	}
	l.logged[kind] = now
	return true
}

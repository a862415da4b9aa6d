package limit

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// Rates are the settings of the section limits that bound how many requests of a kind one
// principal may send in a minute, besides calls of existing items. They are far above normal
// use and stop runaway clients. Zero means no limit.
type Rates struct {
	// Rate limit: pages of lists per minute and caller. 0 is no limit. Default: 6000.
	Lists int `config:"lists_per_minute" default:"6000" min:"0" max:"1000000"`
	// Rate limit: new sessions and server/discover requests per minute and caller. 0 is no limit. Default: 6000.
	Initializes int `config:"initializes_per_minute" default:"6000" min:"0" max:"1000000"`
	// Rate limit: notifications per minute and caller, without cancellations. 0 is no limit. Default: 60000.
	Notifications int `config:"notifications_per_minute" default:"60000" min:"0" max:"1000000"`
	// Rate limit: cancellations per minute and caller; more are ignored. 0 is no limit. Default: 6000.
	Cancels int `config:"cancels_per_minute" default:"6000" min:"0" max:"1000000"`
	// Rate limit: argument completions per minute and caller, which rates do not count. 0 is no limit. Default: 1200.
	Completions int `config:"completions_per_minute" default:"1200" min:"0" max:"1000000"`
	// Rate limit: calls to unknown names per minute and caller that are answered as unknown; more are refused as too
	// many. 0 is no limit. Default: 6000.
	Unknown int `config:"unknown_per_minute" default:"6000" min:"0" max:"1000000"`
	// Rate limit: failed authentications per minute and address (or /64 network of IPv6), after which the address is
	// refused. Callers who authenticated within the last ten minutes are still served. 0 is no limit. Default: 6000.
	AuthFailures int `config:"auth_failures_per_minute" default:"6000" min:"0" max:"1000000"`
}

// Kind is a kind of request, named after its setting.
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

// of returns the limit of a kind.
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

// describe names the requests of a kind in a sentence.
func (kind Kind) describe() string {
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

// Requests enforces [Rates]. Its memory is bounded, see [rate.Local]. Create one with
// [NewRequests]. It is safe for concurrent use.
type Requests struct {
	log     *slog.Logger
	refused func(setting string)
	rates   atomic.Pointer[Rates]
	local   *rate.Local
	meter   *rate.Meter // of local, and of what gateways count together

	mu     sync.Mutex
	logged map[Kind]time.Time // time of the latest log line, by kind
}

// NewRequests returns a limiter without limits; see [Requests.Apply]. refused is called
// with the setting at each refusal and must not block.
func NewRequests(log *slog.Logger, refused func(setting string)) *Requests {
	l := &Requests{log: log, refused: refused, local: rate.NewLocal(0), logged: make(map[Kind]time.Time)}
	l.meter = rate.NewMeter(l.local, nil, nil)
	l.rates.Store(&Rates{})
	return l
}

// Share has gateways count failed authentications together, while the store that they
// share answers. It must be called before anything else.
func (l *Requests) Share(with *Shared) { l.meter = with.Meter.Beside(l.local) }

// Apply sets the limits. The counters stay.
func (l *Requests) Apply(rates Rates) { l.rates.Store(&rates) }

// Take counts one request of a kind. The error is a [*refusal.Error] when there were
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

// count is Take for an event that cannot be refused any more, and that gateways count
// together.
func (l *Requests) count(ctx context.Context, kind Kind, who string) {
	if t, bounded := l.token(kind, who); bounded {
		l.meter.Take(ctx, t)
	}
}

// check returns the refusal of one more request of a kind that gateways count together,
// nil where there is room. It counts nothing. let can exempt a request, and is asked
// before other gateways are.
func (l *Requests) check(ctx context.Context, kind Kind, who string, let func() bool) error {
	t, bounded := l.token(kind, who)
	if !bounded || let() {
		return nil
	}
	over, wait := l.meter.Wait(ctx, t)
	if over < 0 {
		return nil
	}
	return l.tooMany(kind, t, wait)
}

// token returns one request of a kind as a token of the rate limiter.
func (l *Requests) token(kind Kind, who string) (t rate.Token, bounded bool) {
	most := l.rates.Load().of(kind)
	return rate.Token{Bucket: string(kind), Key: who, Rate: rate.Rate{Limit: int64(most), Window: time.Minute}}, most > 0
}

// tooMany is the refusal of one request too many. It logs at most one line a minute for
// each kind; the metrics count all.
func (l *Requests) tooMany(kind Kind, t rate.Token, wait time.Duration) *refusal.Error {
	setting := "limits." + string(kind)
	l.refused(string(kind))
	if l.shouldLog(kind, time.Now()) {
		l.log.Warn("too many from one caller; more are refused", "limit", setting, "per_minute", t.Rate.Limit, "caller", t.Key)
	}
	return refusal.TooOften(kind.describe(), setting, t.Rate.Limit, wait)
}

// shouldLog reports whether a refusal of a kind gets a log line.
func (l *Requests) shouldLog(kind Kind, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.logged[kind]) < time.Minute {
		return false
	}
	l.logged[kind] = now
	return true
}

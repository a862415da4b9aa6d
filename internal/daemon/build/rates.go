package build

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/budget/redis"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/limit"
)

// Rates holds the counts of calls for rate limits. They are shared by successive
// configurations.
type Rates struct {
	Meter *rate.Meter
	Redis *redis.Client // nil where none is configured
	// Shared is what gateways count together besides calls; nil without Redis.
	Shared *limit.Shared

	mu    sync.Mutex
	inUse atomic.Pointer[rate.Limiter] // set where there are native tools, which have their own rates
}

// NewRates makes the rates of a configuration. It does not wait for Redis: a gateway
// starts without it.
func NewRates(c *config.Config, metrics *telemetry.Metrics, log *slog.Logger) (*Rates, error) {
	r := &Rates{}
	var shared rate.Shared
	if address := c.Toolgate.Redis; address != "" {
		client, err := redis.New(address, redis.Timeouts{})
		if err != nil {
			return nil, fmt.Errorf("%s: redis: %w", c.Path, err)
		}
		r.Redis, shared = client, client.Rates()
		metrics.Redis(true)
	}
	r.Meter = rate.NewMeter(rate.NewLocal(0), shared, func(up bool, err error) {
		metrics.Redis(up)
		if up {
			log.Info("Redis answers again: rates are shared")
			return
		}
		log.Error("Redis does not answer: each gateway counts rate limits on its own until it does", "err", err)
	})
	if r.Redis != nil {
		r.Shared = &limit.Shared{Meter: r.Meter, Rows: r.Redis.Rows()}
	}
	return r, nil
}

// Close closes the connection to Redis. A nil receiver has none.
func (r *Rates) Close() {
	if r != nil && r.Redis != nil {
		_ = r.Redis.Close() // no writes are pending
	}
}

// Limiter returns the rate limiter of a configuration, nil where there is none. own are the
// rates that native tools have of themselves, as far as they are known; [Rates.Renew] puts
// others in their place.
func (r *Rates) Limiter(c *config.Config, own []rate.Rule) proxy.RateLimiter {
	rules := RateRules(c)
	if slices.ContainsFunc(c.Servers, func(s config.Server) bool { return s.Native != nil }) {
		r.Renew(func() (file, native []rate.Rule) { return rules, own })
		return r
	}
	limiter := r.Meter.Limiter(rules)
	if len(rules) == 0 {
		return nil // a limiter without rules would still be asked
	}
	return limiter
}

// Renew puts rules in force where there are native tools: those of the file, and those of
// the tools. It calls current while nobody else renews, so that the latest ones stay.
func (r *Rates) Renew(current func() (file, own []rate.Rule)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	file, own := current()
	r.inUse.Store(r.Meter.Limiter(slices.Concat(file, own)))
}

// Begin implements [proxy.RateLimiter].
func (r *Rates) Begin(c *rate.Call) *rate.Taking { return r.inUse.Load().Begin(c) }

// Look implements [proxy.RateLimiter].
func (r *Rates) Look(ctx context.Context, c *rate.Call) error { return r.inUse.Load().Look(ctx, c) }

// RateRules returns the rate rules of a configuration.
func RateRules(c *config.Config) []rate.Rule {
	var rules []rate.Rule
	for _, r := range c.Toolgate.Rates {
		rule := rate.Rule{Name: r.Name, Per: r.Per, Rate: r.Rate}
		if glob := gate.Glob(r.Match); glob != "*" {
			rule.Match = func(call *rate.Call) bool {
				return gate.Names{Exposed: call.Exposed, Unsuffixed: call.Unsuffixed}.Restricted(glob)
			}
		}
		rules = append(rules, rule)
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		for _, tool := range slices.Sorted(maps.Keys(s.Tools)) {
			limit := s.Tools[tool].RateLimitPerHour
			if limit == 0 {
				continue
			}
			rules = append(rules, rate.Rule{
				Name: "tool " + strconv.Quote(s.Key) + " " + strconv.Quote(tool),
				Per:  []rate.Dimension{rate.PerTool}, Rate: perHour(limit),
				Match: func(call *rate.Call) bool {
					return call.Server == s.Key && call.Original == tool && call.Kind == "tool"
				},
			})
		}
	}
	if slices.ContainsFunc(c.Toolgate.Tools, func(t declared.Settings) bool { return t.Template }) {
		rules = append(rules, registrations)
	}
	for i := range c.Toolgate.Tools {
		t := &c.Toolgate.Tools[i]
		if t.RateLimitPerHour == 0 || t.Of != "" {
			continue
		}
		if t.Template {
			rules = append(rules, templateRate(c, t))
			continue
		}
		name := NameOf(t.Namespace) + t.Name
		rules = append(rules, rate.Rule{
			Name: "declared " + strconv.Quote(name), Per: []rate.Dimension{rate.PerTool}, Rate: perHour(t.RateLimitPerHour),
			Match: func(call *rate.Call) bool {
				return call.Kind == "tool" && (call.Exposed == name || call.Unsuffixed == name)
			},
		})
	}
	return rules
}

// registrations is how often one caller may register and remove tools: each time the
// gateway makes anew what it serves.
var registrations = rate.Rule{
	Name: "registered tools", Per: []rate.Dimension{rate.PerPrincipal}, Rate: perHour(120),
	Match: func(call *rate.Call) bool {
		return call.Kind == "tool" && call.Server == enable.Name && (call.Original == enable.Register || call.Original == enable.RemoveTool)
	},
}

// templateRate is the limit of a template: all tools made of it share it.
func templateRate(c *config.Config, t *declared.Settings) rate.Rule {
	of, made := NameOf(t.Namespace)+t.Name, map[string]bool{}
	for i := range c.Toolgate.Tools {
		if one := &c.Toolgate.Tools[i]; one.Of == of {
			made[NameOf(one.Namespace)+one.Name] = true
		}
	}
	return rate.Rule{
		Name: "template " + strconv.Quote(of), Rate: perHour(t.RateLimitPerHour),
		Match: func(call *rate.Call) bool {
			return call.Kind == "tool" && (made[call.Exposed] || made[call.Unsuffixed])
		},
	}
}

// perHour is a rate of so many calls in any 60 minutes.
func perHour(limit int64) rate.Rate {
	return rate.Rate{Limit: limit, Window: time.Hour, Kind: rate.Sliding}
}

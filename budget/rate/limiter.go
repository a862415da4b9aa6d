package rate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Dimension is a part of a call by which a rule counts apart.
type Dimension string

// Dimensions of rules. Calls without a value for a dimension are counted together.
const (
	PerPrincipal Dimension = "principal"
	PerTenant    Dimension = "tenant"
	PerPersona   Dimension = "persona" // within its tenant
	PerServer    Dimension = "server"
	PerTool      Dimension = "tool" // or prompt, or resource
)

// Call is a call to check.
type Call struct {
	Principal  string // key of the principal
	Tenant     string
	Persona    string
	Server     string
	Kind       string // tool, prompt, resource or template
	Original   string // name at the server
	Exposed    string // name for clients
	Unsuffixed string // another name that rules may match; empty for none
}

// Rule is a rate for some calls.
type Rule struct {
	// Name identifies the buckets of the rule, across configurations and among gateways
	// that share them.
	Name string
	// Per are the dimensions that are counted apart; without any all calls are counted
	// together.
	Per []Dimension
	// Match selects the calls that the rule counts; nil selects all.
	Match func(*Call) bool
	Rate  Rate
}

// Refusal is a call that exceeds a rate.
type Refusal struct {
	Rule       *Rule
	RetryAfter time.Duration // until one more call is allowed
}

// Error implements error.
func (r *Refusal) Error() string {
	whose := "in all"
	if len(r.Rule.Per) > 0 {
		var per []string
		for _, d := range r.Rule.Per {
			per = append(per, string(d))
		}
		whose = "per " + strings.Join(per, " and ")
	}
	calls := "calls"
	if r.Rule.Rate.Limit == 1 {
		calls = "call"
	}
	return fmt.Sprintf("the limit of %d %s in %s %s is used up", r.Rule.Rate.Limit, calls, Words(r.Rule.Rate.Window), whose)
}

// Words formats a duration as people write it: 90m, 12s, 1h. Durations above a second
// are rounded up to whole seconds.
func Words(d time.Duration) string {
	if d <= 0 {
		return "0s"
	}
	if d < time.Second {
		return strconv.FormatInt(max(1, (d+time.Millisecond-1).Milliseconds()), 10) + "ms"
	}
	d = (d + time.Second - 1).Truncate(time.Second)
	if day := 24 * time.Hour; d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Shared keeps the buckets of several gateways. It is safe for concurrent use and
// bounds its own waits.
type Shared interface {
	// Take takes all tokens or none, like [Local.Take]. An error means that the store
	// could not answer; the tokens may have been taken.
	Take(ctx context.Context, tokens []Token) (refused int, wait time.Duration, err error)
	// Wait is Take without taking.
	Wait(ctx context.Context, tokens []Token) (refused int, wait time.Duration, err error)
}

// Meter keeps the buckets while a gateway runs. It checks each call against the
// gateway's own buckets first, so that a flood stays at one gateway, and then against
// the shared ones. While the shared store does not answer, only its own buckets count.
// It is safe for concurrent use.
type Meter struct {
	local  *Local
	shared Shared // nil for none
	health *health
}

// NewMeter returns a meter with its own buckets, and with shared ones unless shared is
// nil. told is called when the shared store fails and when it recovers; it must not
// block.
func NewMeter(local *Local, shared Shared, told func(up bool, err error)) *Meter {
	return &Meter{local: local, shared: shared, health: &health{onChange: told}}
}

// Beside returns a meter with other buckets of its own, in the same shared store. Both
// know the same of whether that answers.
func (m *Meter) Beside(local *Local) *Meter {
	return &Meter{local: local, shared: m.shared, health: m.health}
}

// Limiter checks calls against the rules of one configuration. The zero Limiter, and
// nil, refuse everything.
type Limiter struct {
	meter *Meter
	rules []Rule
}

// Limiter returns a limiter with these rules, whose names must be unique. It drops the
// buckets of all others.
func (m *Meter) Limiter(rules []Rule) *Limiter {
	names := make(map[string]bool, len(rules))
	for i := range rules {
		names[rules[i].Name] = true
	}
	m.local.Keep(func(name string) bool { return names[name] })
	return &Limiter{meter: m, rules: rules}
}

// ErrNoLimiter is the refusal of a limiter without configuration.
var ErrNoLimiter = errors.New("no rates are configured")

// Take takes the tokens that a call needs, or returns a [*Refusal]. It does not keep
// the call.
func (l *Limiter) Take(ctx context.Context, c *Call) error { return l.Begin(c).End(ctx) }

// Look returns what Take would, without taking.
func (l *Limiter) Look(ctx context.Context, c *Call) error {
	if l == nil || l.meter == nil {
		return ErrNoLimiter
	}
	tokens, rules := l.tokens(c, nil, nil)
	if len(tokens) == 0 {
		return nil
	}
	if refused, wait := l.meter.look(ctx, tokens); refused >= 0 {
		return &Refusal{Rule: rules[refused], RetryAfter: wait}
	}
	return nil
}

// tokens appends the tokens that a call needs, with their rules.
func (l *Limiter) tokens(c *Call, tokens []Token, rules []*Rule) ([]Token, []*Rule) {
	for i := range l.rules {
		r := &l.rules[i]
		if r.Match == nil || r.Match(c) {
			tokens, rules = append(tokens, Token{Bucket: r.Name, Key: r.key(c), Rate: r.Rate}), append(rules, r)
		}
	}
	return tokens, rules
}

// key returns the unique key of a call's bucket. The length of each part precedes it.
func (r *Rule) key(c *Call) string {
	if len(r.Per) == 1 && r.Per[0] == PerPrincipal {
		return c.Principal // the usual case, without a copy
	}
	var key []byte
	part := func(s string) { key = append(append(strconv.AppendInt(key, int64(len(s)), 10), ':'), s...) }
	for _, d := range r.Per {
		switch d {
		case PerPrincipal:
			part(c.Principal)
		case PerTenant:
			part(c.Tenant)
		case PerPersona:
			part(c.Tenant)
			part(c.Persona)
		case PerServer:
			part(c.Server)
		case PerTool:
			part(c.Server)
			part(c.Kind)
			part(c.Original)
		default:
			part(string(d)) // counted together, which is stricter, never looser
		}
	}
	return string(key)
}

// Take takes the tokens from the meter's own buckets and from the shared ones. It
// returns -1, or the index of the token with the longest wait, and that wait.
func (m *Meter) Take(ctx context.Context, tokens ...Token) (refused int, wait time.Duration) {
	t := Taking{meter: m, tokens: tokens}
	t.fromLocal()
	t.fromShared(ctx)
	return t.refused, t.wait
}

// Wait is Take without taking.
func (m *Meter) Wait(ctx context.Context, tokens ...Token) (refused int, wait time.Duration) {
	return m.look(ctx, tokens)
}

// Ask runs ask, which asks the server of the shared store, unless that has just failed.
// It reports whether the server has answered.
func (m *Meter) Ask(ctx context.Context, ask func(context.Context) error) bool {
	if !m.health.mayAsk() {
		return false
	}
	err := ask(ctx)
	m.health.asked(ctx, err)
	return err == nil
}

// Down reports whether the shared store failed to answer last.
func (m *Meter) Down() bool { return m.health.isDown() }

// takeShared takes tokens from the shared store, which there must be. While that does not
// answer it refuses nothing, because the gateway's own buckets have let the tokens pass.
func (m *Meter) takeShared(ctx context.Context, tokens []Token) (refused int, wait time.Duration) {
	if !m.Ask(ctx, func(ctx context.Context) (err error) {
		refused, wait, err = m.shared.Take(ctx, tokens)
		return err
	}) {
		return -1, 0
	}
	return refused, wait
}

// look is [Meter.Take] without taking. It does not retry a shared store that has failed.
func (m *Meter) look(ctx context.Context, tokens []Token) (refused int, wait time.Duration) {
	if refused, wait = m.local.Wait(tokens...); refused >= 0 || m.shared == nil || m.Down() {
		return refused, wait
	}
	refused, wait, err := m.shared.Wait(ctx, tokens)
	if m.health.asked(ctx, err); err != nil {
		return -1, 0 // its own buckets would allow it
	}
	return refused, wait
}

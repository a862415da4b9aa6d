package rate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Dimension is whose calls a rule counts together.
type Dimension string

// Dimensions of rules. What has none is counted together with all others that
// have none.
const (
	PerPrincipal Dimension = "principal"
	PerTenant    Dimension = "tenant"
	PerPersona   Dimension = "persona" // within its tenant
	PerServer    Dimension = "server"
	PerTool      Dimension = "tool" // or prompt, or resource
)

// Call is what is about to be done.
type Call struct {
	Principal string // key of the principal
	Tenant    string
	Persona   string
	Server    string
	Kind      string // tool, prompt, resource or template
	Original  string // its name at the server
	Exposed   string // its name to clients
	Plain     string // its other name that rules are about; empty for none
}

// Rule is a rate of some calls.
type Rule struct {
	// Name is what the buckets of the rule are known by, also from one
	// configuration to the next and among gateways that share them.
	Name string
	// Per are the dimensions that are counted apart; none counts all calls
	// together.
	Per []Dimension
	// Match tells which calls the rule counts; nil is all.
	Match func(*Call) bool
	Rate  Rate
}

// Refusal is a call that a rate does not allow yet.
type Refusal struct {
	Rule       *Rule
	RetryAfter time.Duration // how long until one more is allowed
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

// Words is a duration as people write one: 90m, 12s, 1h. What is longer than a
// second is rounded up to whole ones.
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
	// Take takes all tokens or none, as [Local.Take] does. An error is a store
	// that could not answer; the tokens may then be taken or not.
	Take(ctx context.Context, tokens []Token) (refused int, wait time.Duration, err error)
	// Wait is Take without taking.
	Wait(ctx context.Context, tokens []Token) (refused int, wait time.Duration, err error)
}

// Meter keeps what has been used, for as long as a gateway runs. Each call is
// held against the gateway's own buckets first, so that a flood stays with the
// gateway that it came to, and then against the shared ones. While those cannot
// be asked the gateway's own are what counts. It is safe for concurrent use.
type Meter struct {
	local  *Local
	shared Shared                   // nil for none
	told   func(up bool, err error) // when that changes; nil for nobody

	mu     sync.Mutex
	down   bool
	again  time.Time // when the shared store is asked next while it is down
	asking bool      // somebody does so now
}

// pause is how long a shared store that failed is not asked.
const pause = time.Second

// NewMeter returns a meter with buckets of its own, and with shared ones unless
// shared is nil. told is called when the shared store fails, and when it is back;
// it must not block.
func NewMeter(local *Local, shared Shared, told func(up bool, err error)) *Meter {
	return &Meter{local: local, shared: shared, told: told}
}

// Limiter holds calls against the rules of one configuration. The zero Limiter,
// and a nil one, refuse everything.
type Limiter struct {
	meter *Meter
	rules []Rule
}

// Limiter returns a limiter by some rules, whose names differ, and forgets the
// buckets of all others.
func (m *Meter) Limiter(rules []Rule) *Limiter {
	names := make(map[string]bool, len(rules))
	for i := range rules {
		names[rules[i].Name] = true
	}
	m.local.Keep(func(name string) bool { return names[name] })
	return &Limiter{meter: m, rules: rules}
}

// ErrNoLimiter is the refusal of a limiter that nobody made.
var ErrNoLimiter = errors.New("no rates are configured")

// Take takes what a call needs of every rule, or returns a [*Refusal]. The call
// is not kept.
func (l *Limiter) Take(ctx context.Context, c *Call) error {
	if l == nil || l.meter == nil {
		return ErrNoLimiter
	}
	var few [8]Token
	var of [8]*Rule
	tokens, rules := l.tokens(c, few[:0], of[:0])
	if len(tokens) == 0 {
		return nil
	}
	if refused, wait := l.meter.take(ctx, tokens); refused >= 0 {
		return &Refusal{Rule: rules[refused], RetryAfter: wait}
	}
	return nil
}

// Look returns what Take would, and takes nothing.
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

// tokens appends what a call needs, and the rules that say so.
func (l *Limiter) tokens(c *Call, tokens []Token, rules []*Rule) ([]Token, []*Rule) {
	for i := range l.rules {
		r := &l.rules[i]
		if r.Match == nil || r.Match(c) {
			tokens, rules = append(tokens, Token{Bucket: r.Name, Key: r.key(c), Rate: r.Rate}), append(rules, r)
		}
	}
	return tokens, rules
}

// key is whose bucket of the rule a call uses. No two of them are the same text:
// the length of each part goes before it.
func (r *Rule) key(c *Call) string {
	if len(r.Per) == 1 && r.Per[0] == PerPrincipal {
		return c.Principal // the usual one, without a copy
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
			part(string(d)) // counted together, which refuses more and never less
		}
	}
	return string(key)
}

func (m *Meter) take(ctx context.Context, tokens []Token) (refused int, wait time.Duration) {
	if refused, wait = m.local.Take(tokens...); refused >= 0 || m.shared == nil || !m.mayAsk() {
		return refused, wait
	}
	refused, wait, err := m.shared.Take(ctx, tokens)
	if m.asked(ctx, err); err != nil {
		return -1, 0 // its own buckets have allowed it
	}
	if refused >= 0 {
		m.local.Return(tokens...)
	}
	return refused, wait
}

// look is take without taking. A shared store that does not answer is not asked
// again because of it.
func (m *Meter) look(ctx context.Context, tokens []Token) (refused int, wait time.Duration) {
	if refused, wait = m.local.Wait(tokens...); refused >= 0 || m.shared == nil || m.Down() {
		return refused, wait
	}
	refused, wait, err := m.shared.Wait(ctx, tokens)
	if err != nil {
		return -1, 0 // its own buckets would allow it
	}
	return refused, wait
}

// mayAsk tells whether the shared store is to be asked: always while it answers,
// else by one call at a time after a pause.
func (m *Meter) mayAsk() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.down {
		return true
	}
	if m.asking || time.Now().Before(m.again) {
		return false
	}
	m.asking = true
	return true
}

// asked notes how the shared store answered. A call that was given up says
// nothing of it.
func (m *Meter) asked(ctx context.Context, err error) {
	m.mu.Lock()
	before := m.down
	m.asking = false
	switch {
	case err == nil:
		m.down = false
	case ctx.Err() == nil:
		m.down, m.again = true, time.Now().Add(pause)
	}
	after := m.down
	m.mu.Unlock()
	if before != after && m.told != nil {
		m.told(!after, err)
	}
}

// Down tells whether the shared store did not answer when it was asked last.
func (m *Meter) Down() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.down
}

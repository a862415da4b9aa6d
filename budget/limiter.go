package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of a limiter besides a [*Refusal].
var (
	// ErrNoLimiter is the refusal of a limiter without configuration.
	ErrNoLimiter = errors.New("no budget is configured")
	// ErrPlan means that the plan of a credential or a tenant is not configured.
	ErrPlan = errors.New("the plan is not configured")
	// ErrStore means that a store could not answer.
	ErrStore = errors.New("the budgets cannot be read or written")
)

// billRetention is how much longer than its call may take a bill is remembered.
const billRetention = 10 * time.Minute

// AnyTenant is the name of the settings for tenants without their own.
const AnyTenant = "*"

// Settings configure a [Limiter].
type Settings struct {
	// Store keeps the counters. Required where anything is counted.
	Store Store
	// Clock outlives the limiter, so that a new configuration does not go back in time.
	// nil stands for a new one.
	Clock   *Clock
	Rules   []Rule
	Plans   map[string]Plan
	Tenants map[string]Tenant // by name; [AnyTenant] is for all others
	Agents  map[string]Plan   // the budgets of agents, by name of the agent
	// Observe is called with every outcome. It must not block; it may be nil.
	Observe func(Event)
}

// Outcome is the outcome of a charge.
type Outcome string

// Outcomes of charges.
const (
	Granted     Outcome = "granted"
	Refused     Outcome = "refused"
	Unavailable Outcome = "unavailable" // denied: the store did not answer
	Passed      Outcome = "passed"      // the store did not answer, and there is no limit
)

// Event is one outcome, for metrics.
type Event struct {
	Budget  string
	Outcome Outcome
	// Warned is the threshold in percent that this charge has reached, 80 or 100; else
	// 0.
	Warned int
	// For a granted charge: the counter, its usage, its limit, which may be NoLimit,
	// and when the usage falls. For other outcomes only Budget is set.
	Measure, Key string
	Used, Limit  int64
	ResetAt      time.Time
}

// Limiter charges a store by rules. It is safe for concurrent use. The zero Limiter,
// and nil, refuse everything; [Unlimited] allows everything.
type Limiter struct {
	unlimited bool
	store     Store
	clock     *Clock
	rules     []*rule
	plans     map[string]Plan
	tenants   map[string]Tenant
	observe   func(Event)

	// The rules of plans, created once: those of tenants by tenant, with one per plan
	// for [AnyTenant], those of credentials by plan, and those of agents by agent.
	ofTenants map[string][]*rule
	ofOwn     map[string][]*rule
	ofAgents  map[string][]*rule
}

// Unlimited returns the limiter of a gateway without budgets.
func Unlimited() *Limiter { return &Limiter{unlimited: true} }

// Charges reports whether the limiter may charge or refuse anything. It is false only
// for [Unlimited].
func (l *Limiter) Charges() bool { return l == nil || !l.unlimited }

// New returns a limiter. Names of budgets must be unique.
func New(s Settings) (*Limiter, error) {
	l := &Limiter{
		store: s.Store, clock: s.Clock, plans: s.Plans, tenants: s.Tenants, observe: s.Observe,
		ofTenants: make(map[string][]*rule), ofOwn: make(map[string][]*rule), ofAgents: make(map[string][]*rule),
	}
	if l.clock == nil {
		l.clock = new(Clock)
	}
	if l.observe == nil {
		l.observe = func(Event) {}
	}
	if l.store == nil {
		return nil, errors.New("budgets need a store")
	}
	names := make(map[string]bool)
	for _, r := range s.Rules {
		own, err := newRule(r)
		if err != nil {
			return nil, err
		}
		if names[r.Name] {
			return nil, fmt.Errorf("two budgets have the name %s", r.Name)
		}
		names[r.Name] = true
		l.rules = append(l.rules, own)
	}
	if len(l.rules)+planCharges > MaxCharges {
		return nil, fmt.Errorf("there are more than %d budgets", MaxCharges-planCharges)
	}
	for tenant, t := range s.Tenants {
		if t.Plan == "" {
			continue
		}
		plan, ok := s.Plans[t.Plan]
		if !ok {
			return nil, fmt.Errorf("%w: %s, of the tenant %s", ErrPlan, t.Plan, tenant)
		}
		l.ofTenants[tenant] = plan.rules(PerTenant, t.Zone)
	}
	for name, plan := range s.Plans {
		l.ofOwn[name] = plan.rules(PerSubject, nil)
	}
	for name, plan := range s.Agents {
		l.ofAgents[name] = plan.rules(PerAgent, nil)
	}
	return l, nil
}

// planCharges bounds the charges of plans in one bill: those of a tenant, a credential and
// an agent, each in all units but tokens, which no call has.
const planCharges = 3 * (len(Units) - 1)

// rules returns the rules of a plan for an owner.
func (p *Plan) rules(per Per, zone *time.Location) (rules []*rule) {
	window := p.Window
	if window == (Window{}) {
		window = Month
	}
	add := func(u Unit, limit int64) {
		rules = append(rules, &rule{
			Rule:    Rule{Name: PlanBudget, Per: per, Unit: u, Limit: limit, Window: window},
			measure: measure(u, window), plan: p.Name, window: newWindows(window, zone),
		})
	}
	for _, u := range Units {
		if limit, ok := p.Limits[u]; ok {
			add(u, limit)
		}
	}
	counted := map[Per]Unit{PerTenant: Calls, PerAgent: Tokens}[per]
	if len(rules) == 0 && counted != "" { // so that the usage can be shown
		add(counted, NoLimit)
	}
	return rules
}

// applies returns the rules that apply to a usage.
func (l *Limiter) applies(u *Usage) ([]*rule, error) {
	rules := l.rules
	plan, ok := l.ofTenants[u.Tenant]
	if _, own := l.tenants[u.Tenant]; !ok && !own {
		plan = l.ofTenants[AnyTenant]
	}
	var mine []*rule
	if u.Plan != "" && len(l.plans) > 0 { // without plans the word is only for policies
		if mine, ok = l.ofOwn[u.Plan]; !ok {
			return nil, fmt.Errorf("%w: %q, of the credential", ErrPlan, u.Plan)
		}
	}
	agent := l.ofAgents[u.Agent]
	if len(plan)+len(mine)+len(agent) == 0 {
		return rules, nil
	}
	return slices.Concat(plan, mine, agent, rules), nil
}

// Charge charges a usage to all its budgets, or to none. The receipt must be settled or
// refunded at the end of the round; without an error it is not nil. A [*Refusal] says
// which budget is used up. Other refusals wrap ErrNoLimiter, ErrPlan or ErrStore.
func (l *Limiter) Charge(ctx context.Context, u Usage) (*Receipt, error) {
	return l.charge(ctx, &u, time.Time{})
}

// charge charges a usage that began at a time; zero stands for now.
func (l *Limiter) charge(ctx context.Context, u *Usage, begun time.Time) (*Receipt, error) {
	switch {
	case l == nil:
		return nil, ErrNoLimiter
	case l.unlimited:
		return new(Receipt), nil
	case l.store == nil:
		return nil, ErrNoLimiter
	}
	rules, err := l.applies(u)
	if err != nil {
		return nil, err
	}
	now := begun
	if now.IsZero() {
		now = l.clock.Now()
	}
	receipt := &Receipt{limiter: l, inference: u.Tokens > 0}
	receipt.bill = Bill{Key: Key{Call: u.CallID, Round: u.Round}, Once: u.Round == 0 && !receipt.inference, At: now, Until: now.Add(u.Time + billRetention)}
	receipt.bill.Charges, receipt.rules = receipt.few.charges[:0], receipt.few.rules[:0]
	limited := false
	for _, r := range rules {
		c, some, err := r.charge(u, now)
		if err != nil {
			return nil, fmt.Errorf("%w: the budget %s: %w", ErrStore, r.Name, err)
		}
		if some {
			receipt.bill.Charges, receipt.rules = append(receipt.bill.Charges, c), append(receipt.rules, r)
			limited = limited || c.Limit != NoLimit
		}
	}
	if len(receipt.bill.Charges) == 0 {
		return new(Receipt), nil
	}
	if receipt.balances, err = l.store.Charge(ctx, receipt.bill); err != nil {
		return receipt.failed(err, limited)
	}
	receipt.report()
	return receipt, nil
}

// Standing is the state of a budget for a usage that is not charged yet.
type Standing struct {
	Budget string
	Unit   Unit
	// Used and Limit are in the unit; Limit is [NoLimit] where there is none.
	Used, Limit int64
	ResetAt     time.Time
}

// Look returns the state of the budgets for a usage, and the error that a charge would
// have now: a [*Refusal], or a wrapped ErrNoLimiter, ErrPlan or ErrStore. It charges
// nothing.
func (l *Limiter) Look(ctx context.Context, u Usage) ([]Standing, error) {
	switch {
	case l == nil:
		return nil, ErrNoLimiter
	case l.unlimited:
		return nil, nil
	case l.store == nil:
		return nil, ErrNoLimiter
	}
	rules, err := l.applies(&u)
	if err != nil {
		return nil, err
	}
	now := l.clock.Now()
	receipt := &Receipt{limiter: l, inference: u.Tokens > 0}
	var all []Standing
	for _, r := range rules {
		c, some, err := r.charge(&u, now)
		if err != nil {
			return all, fmt.Errorf("%w: the budget %s: %w", ErrStore, r.Name, err)
		}
		if !some {
			continue
		}
		receipt.bill.Charges, receipt.rules = append(receipt.bill.Charges, c), append(receipt.rules, r)
		used, resetAt, err := l.balance(ctx, &c, now)
		if err != nil && c.Limit == NoLimit {
			continue // it refuses nothing
		} else if err != nil {
			return all, fmt.Errorf("%w: %w", ErrStore, err)
		}
		all = append(all, Standing{Budget: r.Name, Unit: r.Unit, Used: r.Unit.Whole(used), Limit: r.Limit, ResetAt: resetAt})
		if c.Fit(used) == 0 {
			return all, receipt.refusal(c.Refuse(used, resetAt))
		}
	}
	return all, nil
}

// balance returns the usage of a charge's counter, and when it falls.
func (l *Limiter) balance(ctx context.Context, c *Charge, now time.Time) (used int64, resetAt time.Time, err error) {
	found, err := l.store.Usage(ctx, now, Filter{Budget: c.Budget, Key: c.Key}, MaxCharges)
	for i := range found {
		if found[i].Counter == c.Counter {
			return found[i].Used, found[i].ResetAt, err
		}
	}
	return 0, c.End, err
}

// failed handles a charge that the store refused or did not answer.
func (r *Receipt) failed(err error, limited bool) (*Receipt, error) {
	refusal, refused := errors.AsType[*Refusal](err)
	if refused {
		r.limiter.observe(Event{Budget: refusal.Budget, Outcome: Refused})
		return nil, r.refusal(refusal)
	}
	outcome := Passed
	if limited {
		outcome = Unavailable
	}
	for i := range r.bill.Charges {
		r.limiter.observe(Event{Budget: r.bill.Charges[i].Budget, Outcome: outcome})
	}
	if limited {
		return nil, fmt.Errorf("%w: %w", ErrStore, err)
	}
	return new(Receipt), nil
}

// refusal converts a store's refusal to the unit of its budget and adds a hint.
func (r *Receipt) refusal(by *Refusal) *Refusal {
	own := *by
	for i := range r.bill.Charges {
		if r.bill.Charges[i].Counter != by.Counter {
			continue
		}
		rule := r.rules[i]
		own.Limit, own.Used, own.Amount = rule.Limit, rule.Unit.Whole(by.Used), rule.Unit.Whole(by.Amount)
		own.Unit, own.Hint = rule.Unit, rule.hint(&own, r.inference)
	}
	return &own
}

// hint says what can be done about a refusal.
func (r *rule) hint(by *Refusal, inference bool) string {
	what := fmt.Sprintf("it allows %d %s %s", r.Limit, r.Unit.noun(r.Limit), r.Window.phrase())
	switch {
	case r.plan != "" && r.Per == PerTenant:
		what = fmt.Sprintf("the plan %s of this tenant allows %d %s %s", r.plan, r.Limit, r.Unit.noun(r.Limit), r.Window.phrase())
	case r.Per == PerAgent && r.Name == PlanBudget:
		what = fmt.Sprintf("the budget of the agent %s allows %d %s %s", r.plan, r.Limit, r.Unit.noun(r.Limit), r.Window.phrase())
	case r.plan != "":
		what = fmt.Sprintf("the plan %s of this credential allows %d %s %s", r.plan, r.Limit, r.Unit.noun(r.Limit), r.Window.phrase())
	}
	switch {
	case r.Limit == 0:
		return what
	case by.Amount > r.Limit && inference:
		return what + ", and this turn of the model alone may take more"
	case by.Amount > r.Limit && !r.Unit.reserved(false):
		return what + ", and this call alone takes more"
	case inference:
		return what + "; turns that run hold what they may still use, so that some may be free again when they end"
	case r.Unit.reserved(false):
		return what + "; calls that run hold what they may still use, so that some may be free again when they end"
	}
	return what + "; wait until it resets, or ask the operator for more"
}

// Limit returns the limit of a counter and its unit: [NoLimit] where there is none. It
// returns false for a counter without a rule, and for those of credentials' plans,
// which may have had several limits.
func (l *Limiter) Limit(c Counter) (limit int64, unit Unit, ok bool) {
	if l == nil {
		return 0, "", false
	}
	for _, r := range l.rules {
		if r.Name == c.Budget && r.measure == c.Measure {
			return r.Limit, r.Unit, true
		}
	}
	if c.Budget != PlanBudget {
		return 0, "", false
	}
	per, parts := Owner(c.Key)
	var rules []*rule
	switch {
	case per == PerTenant && len(parts) == 1:
		if _, own := l.tenants[parts[0]]; own {
			rules = l.ofTenants[parts[0]]
		} else {
			rules = l.ofTenants[AnyTenant]
		}
	case per == PerAgent && len(parts) == 1:
		rules = l.ofAgents[parts[0]]
	default: // of credentials, which may have had several plans
		return 0, "", false
	}
	for _, r := range rules {
		if r.measure == c.Measure {
			return r.Limit, r.Unit, true
		}
	}
	return 0, "", false
}

// Now returns the time of the limiter's clock.
func (l *Limiter) Now() time.Time {
	if l == nil || l.clock == nil {
		return time.Now().UTC()
	}
	return l.clock.Now()
}

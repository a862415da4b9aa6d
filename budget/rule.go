package budget

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// PlanBudget is the budget name of plans. No rule may have it.
const PlanBudget = "plan"

// Rule is one named budget.
type Rule struct {
	Name   string
	Per    Per
	Unit   Unit
	Limit  int64 // in the unit
	Window Window
	Zone   *time.Location // of calendar windows; nil for UTC
	// Match reports whether a name counts; any name of an item is enough. nil counts
	// everything.
	Match func(name string) bool
}

// Plan is how much its owners may use.
type Plan struct {
	Name string
	// Limits by unit. Missing units have no limit. An empty plan limits nothing, but
	// its calls are counted.
	Limits map[Unit]int64
	Window Window // zero stands for [Month]
}

// Tenant is the configuration of one tenant.
type Tenant struct {
	Plan string         // of its plan; empty for none
	Zone *time.Location // of the windows of plans; nil for UTC
}

// rule is a budget with what is needed to apply it.
type rule struct {
	Rule
	measure string
	plan    string // name of the plan; empty for a named budget
	window  *windows
}

// windows caches the current window of one kind in one zone.
type windows struct {
	kind Window
	zone *time.Location
	last atomic.Pointer[span]
}

type span struct{ start, end, until time.Time }

func newWindows(kind Window, zone *time.Location) *windows {
	if zone == nil {
		zone = time.UTC
	}
	return &windows{kind: kind, zone: zone}
}

// at returns the window in which a charge at this time is booked.
func (w *windows) at(now time.Time) (start, end time.Time) {
	if s := w.last.Load(); s != nil && !now.Before(s.start) && now.Before(s.until) {
		return s.start, s.end
	}
	s := new(span)
	s.start, s.end = w.kind.At(now, w.zone)
	if s.until = s.end; w.kind.Sliding() {
		s.until = s.start.Add(w.kind.length / Slots)
	}
	w.last.Store(s)
	return s.start, s.end
}

func newRule(r Rule) (*rule, error) {
	switch {
	case r.Name == "" || r.Name == PlanBudget || len(r.Name) > 128:
		return nil, fmt.Errorf("%q cannot be the name of a budget", r.Name)
	case r.Limit != NoLimit && (r.Limit < 0 || r.Limit > MaxAmount/r.Unit.scale()):
		return nil, fmt.Errorf("the limit of the budget %s is out of range", r.Name)
	case r.Window == Window{}:
		return nil, fmt.Errorf("the budget %s: %w", r.Name, errWindow)
	case !slices.Contains(Pers[:], r.Per):
		return nil, fmt.Errorf("the budget %s: %w", r.Name, errPer)
	case !slices.Contains(Units[:], r.Unit) || !r.Per.Counts(r.Unit):
		return nil, fmt.Errorf("the budget %s counts nothing", r.Name)
	}
	return &rule{Rule: r, measure: measure(r.Unit, r.Window), window: newWindows(r.Window, r.Zone)}, nil
}

func measure(u Unit, w Window) string { return string(u) + "/" + w.String() }

// ParseMeasure parses the measure of a counter. Unknown parts give the zero Unit and
// Window.
func ParseMeasure(text string) (u Unit, w Window) {
	unit, window, _ := strings.Cut(text, "/")
	w, err := ParseWindow(window)
	if err != nil || !slices.Contains(Units[:], Unit(unit)) {
		return "", Window{}
	}
	return Unit(unit), w
}

var errAmount = errors.New("the usage has no amount")

// charge returns the rule's charge for a usage; false for none.
func (r *rule) charge(u *Usage, now time.Time) (c Charge, some bool, err error) {
	if !u.counts(r.Unit) || r.Match != nil && !r.Match(u.Name) && (u.Unsuffixed == "" || !r.Match(u.Unsuffixed)) {
		return c, false, nil
	}
	key, ok := u.key(r.Per)
	if !ok {
		return c, false, nil
	}
	amount := u.amount(r.Unit)
	if amount < 1 || amount > MaxAmount {
		return c, false, errAmount
	}
	c = Charge{Counter: Counter{Budget: r.Name, Measure: r.measure, Key: key}, Amount: amount, Limit: r.Limit}
	if c.Limit != NoLimit {
		c.Limit *= r.Unit.scale()
	}
	c.Least = u.least(r.Unit)
	c.Start, c.End = r.window.at(now)
	return c, true, nil
}

// Usage is what one round of a call is about to use.
type Usage struct {
	// CallID is unique for round 0, which is never charged twice. A later round may
	// come twice, even to another gateway.
	CallID string
	Round  int
	// Later means that an earlier round of the call was charged.
	Later bool
	// Tool means a tools/call, not another request that runs something.
	Tool bool

	Issuer, Tenant, Subject string
	Persona                 string
	Plan                    string // of the credential; empty for none
	Agent                   string // that calls for the caller; empty for none

	Name       string // exposed
	Unsuffixed string // another name that rules may match; empty for none
	Server     string
	Original   string // name or URI at the server
	// Class returns the class of a tool, empty when unknown. It is called only for
	// budgets that count classes. It may be nil.
	Class func() string

	Cost  int64         // cost units; 0 counts as 1 for a call
	Bytes int64         // maximum size of the result
	Time  time.Duration // maximum duration

	// Tokens is the most that a model may read and write; more than 0 stands for an
	// inference ([Inference]).
	Tokens int64
	// What an inference can do with if less than Tokens and Cost are left.
	leastTokens, leastCost int64
}

// counts reports whether a unit counts the usage: the table of ADR 0022.
func (u *Usage) counts(unit Unit) bool {
	switch {
	case u.Tokens > 0:
		return unit == Tokens || unit == Cost && u.Cost > 0
	case unit == Tokens:
		return false
	}
	return unit.reserved(false) || u.Tool && !u.Later
}

// least returns the smallest useful charge in a unit; 0 where only the whole one is.
func (u *Usage) least(unit Unit) int64 {
	switch {
	case u.Tokens == 0 && unit.reserved(false):
		return 1
	case u.Tokens > 0 && unit == Tokens:
		return u.leastTokens
	case u.Tokens > 0 && unit == Cost:
		return u.leastCost
	}
	return 0
}

// amount returns the charge in a unit, in the scale of stores.
func (u *Usage) amount(unit Unit) int64 {
	switch unit {
	case Calls:
		return 1
	case Cost:
		return max(u.Cost, 1)
	case Bytes:
		return u.Bytes
	case Seconds:
		return u.Time.Milliseconds()
	case Tokens:
		return u.Tokens
	}
	return 0
}

// key returns the key of the usage's counter; false when the usage has no such owner.
func (u *Usage) key(per Per) (string, bool) {
	switch per {
	case PerSubject:
		return key(per, u.Issuer, u.Tenant, u.Subject), true
	case PerPersona:
		return key(per, u.Tenant, u.Persona), u.Persona != ""
	case PerTenant:
		return key(per, u.Tenant), true
	case PerServer:
		return key(per, u.Server), u.Server != ""
	case PerTool:
		return key(per, u.Server, u.Original), u.Tool
	case PerClass:
		if !u.Tool || u.Class == nil {
			return "", false
		}
		class := u.Class()
		return key(per, class), class != ""
	case PerAgent:
		return key(per, u.Agent), u.Agent != ""
	}
	return "", false
}

// maxParts bounds the readable parts of a key; longer ones are hashed.
const maxParts = 1024

// key returns the unique key of an owner. Its parts are readable, escaped as in a URL,
// unless they are very long.
func key(per Per, parts ...string) string {
	var few [128]byte
	text := append(append(few[:0], per...), ':')
	begin := len(text)
	for i, p := range parts {
		if i > 0 {
			text = append(text, '/')
		}
		text = append(text, url.PathEscape(p)...)
	}
	if len(text)-begin > maxParts {
		sum := sha256.Sum256(text[begin:])
		text = hex.AppendEncode(append(text[:begin], "%sha256-"...), sum[:]) // no escaped part begins with this
	}
	return string(text)
}

// Owner parses the key of a counter: the kind of owner, and the parts of its name
// (issuer, tenant and subject; tenant and persona; tenant; server; server and name;
// class; agent). A hashed name is one part.
func Owner(key string) (per Per, parts []string) {
	kind, rest, _ := strings.Cut(key, ":")
	for part := range strings.SplitSeq(rest, "/") {
		if text, err := url.PathUnescape(part); err == nil {
			part = text
		}
		parts = append(parts, part)
	}
	return Per(kind), parts
}

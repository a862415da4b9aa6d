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

// PlanBudget is the name of the budget that plans are counted in. No rule has it.
const PlanBudget = "plan"

// Rule is one named budget.
type Rule struct {
	Name   string
	Per    Per
	Unit   Unit
	Limit  int64 // in the unit
	Window Window
	Zone   *time.Location // of calendar windows; nil is UTC
	// Match tells whether something with a name counts, by any of its names; nil counts
	// everything.
	Match func(name string) bool
}

// Plan is how much whoever has it may use.
type Plan struct {
	Name string
	// Limits by unit. A unit that is not in it has none; an empty plan limits
	// nothing, and its calls are counted all the same.
	Limits map[Unit]int64
	Window Window // zero is [Month]
}

// Tenant is what is known of one tenant.
type Tenant struct {
	Plan string         // name of its plan; empty for none
	Zone *time.Location // of the windows of plans; nil is UTC
}

// rule is one budget as it is applied.
type rule struct {
	Rule
	measure string
	plan    string // name of the plan; empty for a named budget
	window  *windows
}

// windows remembers the window in force of one kind in one zone.
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

// at returns the window to book in at a time.
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
	case !slices.Contains(Units[:], r.Unit):
		return nil, fmt.Errorf("the budget %s counts nothing", r.Name)
	}
	return &rule{Rule: r, measure: measure(r.Unit, r.Window), window: newWindows(r.Window, r.Zone)}, nil
}

func measure(u Unit, w Window) string { return string(u) + "/" + w.String() }

// ParseMeasure reads what a counter measures. What it does not know is the zero
// Unit and Window.
func ParseMeasure(text string) (u Unit, w Window) {
	unit, window, _ := strings.Cut(text, "/")
	w, err := ParseWindow(window)
	if err != nil || !slices.Contains(Units[:], Unit(unit)) {
		return "", Window{}
	}
	return Unit(unit), w
}

var errAmount = errors.New("the usage has no amount")

// charge returns what the rule charges for a usage; false is nothing.
func (r *rule) charge(u *Usage, now time.Time) (c Charge, some bool, err error) {
	if !u.counts(r.Unit) || r.Match != nil && !r.Match(u.Name) && (u.Plain == "" || !r.Match(u.Plain)) {
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
	if r.Unit.reserved() {
		c.Least = 1
	}
	c.Start, c.End = r.window.at(now)
	return c, true, nil
}

// Usage is what one round of a call is about to use.
type Usage struct {
	// CallID is new in round 0, which nobody charges again. A later round may come
	// twice, and to another gateway.
	CallID string
	Round  int
	// Later tells that an earlier round of the call was charged.
	Later bool
	// Tool tells that it calls a tool, and is not another request that runs
	// something.
	Tool bool

	Issuer, Tenant, Subject string
	Persona                 string
	Plan                    string // of the credential; empty for none

	Name     string // exposed
	Plain    string // the name that rules are about as well; empty for none
	Server   string
	Original string // name or URI at the server
	// Class returns the class of a tool, empty where nothing is known. It is asked
	// where a budget counts classes. Nil knows nothing.
	Class func() string

	Cost  int64         // cost units; 0 counts as 1
	Bytes int64         // the most that the result may have
	Time  time.Duration // the most that it may take
}

// counts tells whether a unit counts the usage: the table of ADR 0022.
func (u *Usage) counts(unit Unit) bool { return unit.reserved() || u.Tool && !u.Later }

// amount returns what is charged in a unit, as stores count it.
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
	}
	return 0
}

// key returns whose counter the usage belongs to; false where it has no such
// owner.
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
	}
	return "", false
}

// maxParts is how long the parts of a key are that are written out.
const maxParts = 1024

// key names an owner: no two have the same. The parts can be read, escaped as in a
// URL, unless they are very long.
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
		text = hex.AppendEncode(append(text[:begin], "%sha256-"...), sum[:]) // which no escaped part begins with
	}
	return string(text)
}

// Owner reads the key of a counter: whose it is, and the parts of the name (issuer,
// tenant and subject; tenant and persona; tenant; server; server and name; class).
// A name that was too long to keep is one part.
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

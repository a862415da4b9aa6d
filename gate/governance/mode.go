package governance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Mode is an operating mode of the gateway. The zero Mode is invalid and denies every
// call.
type Mode string

// The modes. In the order Alert, Recovery, Lockdown, each allows at most what the one
// before it allows. Degraded allows at most what Normal does.
const (
	// Normal allows everything.
	Normal Mode = "NORMAL"
	// Alert asks for an approval of destructive and high-risk calls.
	Alert Mode = "ALERT"
	// Degraded denies queued and high-cost calls.
	Degraded Mode = "DEGRADED"
	// Lockdown allows only tools that the operator classed as read-only and of low
	// risk.
	Lockdown Mode = "LOCKDOWN"
	// Recovery is Alert with half the concurrency.
	Recovery Mode = "RECOVERY"
)

// Modes lists the modes.
func Modes() []Mode { return []Mode{Normal, Alert, Degraded, Lockdown, Recovery} }

// ParseMode reads a mode in any case.
func ParseMode(text string) (Mode, error) {
	m := Mode(strings.ToUpper(strings.TrimSpace(text)))
	if !m.Known() {
		return "", fmt.Errorf("%q is not a mode; the modes are NORMAL, ALERT, DEGRADED, LOCKDOWN and RECOVERY", text)
	}
	return m, nil
}

// Known tells whether it is one of the modes.
func (m Mode) Known() bool {
	return slices.Contains(Modes(), m)
}

// MarshalText writes the mode as [ParseMode] reads it.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m), nil }

// UnmarshalText reads a mode as [ParseMode] does.
func (m *Mode) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMode(string(text))
	return err
}

// Enables tells whether servers may be added over MCP (tool.enable).
func (m Mode) Enables() bool { return m.Known() && m != Lockdown }

// Concurrency returns how many calls may run at once where n may in Normal: half of
// them, and at least one, in Recovery; none in an invalid mode.
func (m Mode) Concurrency(n int) int {
	switch {
	case !m.Known() || n <= 0:
		return 0
	case m == Recovery:
		return max(1, n/2)
	}
	return n
}

// judge returns the mode's verdict on a call, regardless of its arguments.
func (m Mode) judge(c Class, kind mcp.Kind, queued bool) Verdict {
	c = c.of(kind)
	also := ""
	if m == Lockdown {
		also = ", or set governance.tools.NAME: { class: read_only, risk: low }"
	}
	deny := func(why string) Verdict {
		return Verdict{
			Reason: why,
			Rule:   gate.Rule{Text: "governance.mode: " + string(m)},
			Change: &gate.Change{Text: "run `toolgate mode NORMAL --reason TEXT`" + also, Where: "governance.mode", Value: string(Normal)},
		}
	}
	switch m {
	case Normal:
		return Verdict{Outcome: Pass}
	case Alert, Recovery:
		if c.Destructive || c.Risk == High {
			return Verdict{
				Outcome: Ask,
				Reason:  fmt.Sprintf("in mode %s what is destructive or of high risk needs an approval", m),
				Rule:    gate.Rule{Text: "governance.mode: " + string(m)},
			}
		}
		return Verdict{Outcome: Pass}
	case Degraded:
		switch {
		case queued:
			return deny("in mode DEGRADED no calls are queued; call again later, without a task")
		case c.HighCost:
			return deny("in mode DEGRADED there are no high-cost calls; call again later")
		}
		return Verdict{Outcome: Pass}
	case Lockdown:
		if c.OperatorClassed && c.ReadOnly && !c.Destructive && c.Risk == Low {
			return Verdict{Outcome: Pass}
		}
		return deny("in mode LOCKDOWN only tools are called that the operator classed read-only and of low risk")
	}
	return deny(fmt.Sprintf("the operating mode %q is not known", string(m)))
}

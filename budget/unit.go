package budget

import (
	"errors"
	"strings"
	"time"
)

// Unit is what a budget counts.
type Unit string

// Units of budgets.
const (
	Calls   Unit = "calls"
	Cost    Unit = "cost"
	Bytes   Unit = "bytes"   // of results
	Seconds Unit = "seconds" // of work at servers
	Tokens  Unit = "tokens"  // that models read and write
)

// Units are all units.
var Units = [...]Unit{Calls, Cost, Bytes, Seconds, Tokens}

// scale is how many store amounts make one unit: seconds are stored as milliseconds.
func (u Unit) scale() int64 {
	if u == Seconds {
		return int64(time.Second / time.Millisecond)
	}
	return 1
}

// Whole converts an amount of a store to the unit, rounded up.
func (u Unit) Whole(amount int64) int64 { return (amount + u.scale() - 1) / u.scale() }

// noun names the unit of an amount in a sentence.
func (u Unit) noun(n int64) string {
	noun := string(u)
	if u == Cost {
		noun = "cost units"
	}
	if n == 1 {
		noun = strings.TrimSuffix(noun, "s")
	}
	return noun
}

// reserved reports whether the usage is known only afterwards, so that the charge is a
// reservation. The cost of a call is known before it, and that of an inference is not.
func (u Unit) reserved(inference bool) bool { return inference || u == Bytes || u == Seconds }

// Per is whose usage is counted together.
type Per string

// Values of Per.
const (
	PerSubject Per = "subject" // of an issuer and a tenant
	PerPersona Per = "persona" // of a tenant
	PerTenant  Per = "tenant"
	PerServer  Per = "server" // by all callers
	PerTool    Per = "tool"   // by all callers
	PerClass   Per = "class"  // by all callers
	PerAgent   Per = "agent"  // for all callers
)

// Pers are all values of Per.
var Pers = [...]Per{PerSubject, PerPersona, PerTenant, PerServer, PerTool, PerClass, PerAgent}

// Counts reports whether anything is counted in a unit for such an owner. Tokens belong
// to inferences, which have no server, tool or class.
func (p Per) Counts(u Unit) bool {
	return u != Tokens || p != PerServer && p != PerTool && p != PerClass
}

var errPer = errors.New("it is not said whose use is counted together")

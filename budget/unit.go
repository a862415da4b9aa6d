package budget

import (
	"errors"
	"time"
)

// Unit is what a budget counts.
type Unit string

// Units of budgets.
const (
	Calls   Unit = "calls"
	Cost    Unit = "cost"
	Bytes   Unit = "bytes"   // of results
	Seconds Unit = "seconds" // that servers work
)

// Units are all of them.
var Units = [...]Unit{Calls, Cost, Bytes, Seconds}

// scale is how many of what stores count make one of the unit: seconds are kept
// in milliseconds.
func (u Unit) scale() int64 {
	if u == Seconds {
		return int64(time.Second / time.Millisecond)
	}
	return 1
}

// Whole returns an amount of a store in the unit, rounded up.
func (u Unit) Whole(amount int64) int64 { return (amount + u.scale() - 1) / u.scale() }

// noun is what so many of the unit are.
func (u Unit) noun() string {
	if u == Cost {
		return "cost units"
	}
	return string(u)
}

// reserved tells whether the unit is known only afterwards.
func (u Unit) reserved() bool { return u == Bytes || u == Seconds }

// Per is whose use is counted together.
type Per string

// Values of Per.
const (
	PerSubject Per = "subject" // of an issuer and a tenant
	PerPersona Per = "persona" // of a tenant
	PerTenant  Per = "tenant"
	PerServer  Per = "server" // by whomever
	PerTool    Per = "tool"   // likewise
	PerClass   Per = "class"  // likewise
)

// Pers are all of them.
var Pers = [...]Per{PerSubject, PerPersona, PerTenant, PerServer, PerTool, PerClass}

var errPer = errors.New("it is not said whose use is counted together")

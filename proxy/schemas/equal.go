package schemas

import (
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// equalForm returns a text that two values share if JSON Schema takes them for the same:
// without the order of members, and numbers by their value. It is made once for each value.
func (v *value) equalForm() string {
	if v.form == "" {
		if v.kind == '0' {
			v.form, _ = decimal(string(v.raw))
		} else {
			v.form = string(mcp.AppendCanonical(nil, v.write(nil)))
		}
	}
	return v.form
}

// same compares two values as JSON Schema does.
func same(a, b *value) bool { return a.equalForm() == b.equalForm() }

// decimal returns the only form of a number: its digits without zeros at either end, and
// the power of ten; and whether it has no fraction. A number that is too large to compute
// with stays as it is, and counts as one with a fraction.
func decimal(number string) (form string, whole bool) {
	if !mcp.Computable(number) {
		return number, false
	}
	digits, power := number, 0
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		digits = number[:i]
		power, _ = strconv.Atoi(number[i+1:])
	}
	digits, negative := strings.CutPrefix(digits, "-")
	before, after, _ := strings.Cut(digits, ".")
	power -= len(after)
	digits = strings.TrimLeft(before+after, "0")
	if digits == "" {
		return "0", true
	}
	short := strings.TrimRight(digits, "0")
	power += len(digits) - len(short)
	if negative {
		short = "-" + short
	}
	return short + "e" + strconv.Itoa(power), power >= 0
}

package mcp

import (
	"strconv"
	"strings"
)

const (
	// maxDigits bounds the digits of a number. Exact arithmetic on longer ones takes
	// a time that grows faster than the number.
	maxDigits = 1000
	// maxExponent bounds the power of ten of a number: 1e999999999 is ten bytes long,
	// and written out takes a gigabyte.
	maxExponent = 1000
)

// Computable tells whether exact arithmetic on a JSON number, as it is written, is
// cheap. Whoever computes with numbers of others asks first: libraries of exact
// arithmetic have no bound of their own, and nothing ends what they have begun.
func Computable(number string) bool {
	if len(number) > maxDigits {
		return false
	}
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return true
	}
	n, err := strconv.Atoi(number[i+1:])
	return err == nil && n >= -maxExponent && n <= maxExponent
}

package mcp

import (
	"strconv"
	"strings"
)

const (
	// maxDigits bounds the digits of a number. The time of exact arithmetic grows
	// faster than their number.
	maxDigits = 1000
	// maxExponent bounds the power of ten of a number: 1e999999999 is ten bytes long,
	// but takes a gigabyte when written out.
	maxExponent = 1000
)

// Computable reports whether exact arithmetic on a JSON number, as it is written, is
// cheap. Callers must check it before they compute with untrusted numbers: libraries of
// exact arithmetic have no limit, and cannot be interrupted.
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

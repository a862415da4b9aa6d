// Package units reads and renders the sizes and durations that a person writes.
package units

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written 512, 64KiB, 16MiB, 10MB or 1GiB.
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"kB", 1e3},
	{"B", 1},
}

// String renders the size in the largest binary unit that divides it.
func (s Size) String() string {
	for _, u := range sizeUnits[:3] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText renders the size as [Size.String] does.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

var errSize = errors.New("is not a size")

// ParseSize reads a size: a whole number of bytes with an optional unit.
func ParseSize(s string) (Size, error) {
	num, unit := strings.TrimSpace(s), int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(num, u.suffix); ok {
			num, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	if !digits(num) {
		return 0, fmt.Errorf("%q %w", s, errSize)
	}
	n, err := strconv.ParseInt(num, 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q %w", s, errSize)
	}
	return Size(n * unit), nil
}

var errDuration = errors.New("is not a duration")

// ParseDuration reads a duration as [time.ParseDuration] does, and whole days
// (90d) as 24 hours each.
func ParseDuration(s string) (time.Duration, error) {
	if num, ok := strings.CutSuffix(s, "d"); ok && digits(num) {
		n, err := strconv.ParseInt(num, 10, 64)
		if err != nil || n > math.MaxInt64/int64(24*time.Hour) {
			return 0, fmt.Errorf("%q %w", s, errDuration)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q %w", s, errDuration)
	}
	return d, nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

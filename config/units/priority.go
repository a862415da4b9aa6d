package units

import (
	"fmt"
	"strconv"
	"strings"
)

// Priority orders what runs one after the other: the lowest first. It is written as a
// whole number of 32 bits or as HIGHEST, HIGH, NORMAL, LOW or LOWEST.
type Priority int32

// Priorities are the names of priorities, in their order.
var Priorities = []string{"HIGHEST", "HIGH", "NORMAL", "LOW", "LOWEST"}

var named = map[string]Priority{"HIGHEST": -1000, "HIGH": -100, "NORMAL": 0, "LOW": 100, "LOWEST": 1000}

// ParsePriority reads a priority.
func ParsePriority(s string) (Priority, error) {
	if p, ok := named[strings.ToUpper(s)]; ok {
		return p, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a priority", s)
	}
	return Priority(n), nil
}

// MarshalText renders the priority as a number.
func (p Priority) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(p), 10), nil }

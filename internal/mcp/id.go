package mcp

import "strconv"

// MaxIDLength is how long the raw bytes of an id may be.
const MaxIDLength = 1024

// ID is a JSON-RPC id as the raw bytes of its token, echoed exactly. The empty
// ID is absent: a notification has none, and so has the answer to a message
// whose id could not be read.
type ID string

// NumberID returns the id that stands for an integer.
func NumberID(n int64) ID { return ID(strconv.FormatInt(n, 10)) }

// StringID returns the id that stands for a text.
func StringID(s string) ID { return ID(Quote(s)) }

// Absent tells whether there is no id.
func (id ID) Absent() bool { return id == "" }

// Key returns what makes two ids equal: integers by their digits, strings by
// their text, however it was escaped. An integer never equals a string.
func (id ID) Key() string {
	if len(id) > 0 && id[0] == '"' {
		return `"` + unescape([]byte(id[1:len(id)-1]))
	}
	return string(id)
}

// Int returns the number of an integer id; ok is false for every other one.
func (id ID) Int() (n int64, ok bool) {
	n, err := strconv.ParseInt(string(id), 10, 64)
	return n, err == nil
}

// ParseID returns the id that a validated value holds: a string or an integer
// without fraction or exponent (MCP basic, Requests). ok is false for
// everything else.
func ParseID(raw []byte) (id ID, ok bool) {
	if len(raw) == 0 || len(raw) > MaxIDLength {
		return "", false
	}
	if raw[0] == '"' {
		return ID(raw), true
	}
	i := 0
	if raw[0] == '-' {
		i = 1
	}
	if i == len(raw) || digits(raw, i) != len(raw) {
		return "", false
	}
	return ID(raw), true
}

package mcp

import "strconv"

// MaxIDLength bounds the raw bytes of an id.
const MaxIDLength = 1024

// ID is a JSON-RPC id as the raw bytes of its token, echoed exactly. The empty ID is
// absent, as in a notification, or in the response to a message whose id could not be
// read.
type ID string

// NumberID returns the id of an integer.
func NumberID(n int64) ID { return ID(strconv.FormatInt(n, 10)) }

// StringID returns the id of a string.
func StringID(s string) ID { return ID(Quote(s)) }

// Absent reports whether there is no id.
func (id ID) Absent() bool { return id == "" }

// Key returns the same text for equal ids: integers by their digits, strings by their
// text, however escaped. An integer never equals a string.
func (id ID) Key() string {
	if len(id) > 0 && id[0] == '"' {
		return `"` + unescape([]byte(id[1:len(id)-1]))
	}
	return string(id)
}

// Int returns the number of an integer id; ok is false for any other id.
func (id ID) Int() (n int64, ok bool) {
	n, err := strconv.ParseInt(string(id), 10, 64)
	return n, err == nil
}

// ParseID returns the id in a validated value: a string, or an integer without fraction
// or exponent (MCP basic, Requests). ok is false for anything else.
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

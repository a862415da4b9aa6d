package telemetry

import (
	"strings"
	"unicode/utf8"
)

// Bounds of the labels whose values come from elsewhere. What comes when a bound
// is reached is counted under [other].
const (
	maxTools   = 2000
	maxServers = 500
	maxAgents  = 500
	maxBudgets = 200
	maxWords   = 128 // kinds of refusals, phases and such, which are the gateway's own
)

// other is the value of a label for everything beyond its bound. No name of a
// tool begins with an underscore unless its server has no namespace; one that is
// called so is counted with the others.
const other = "_other"

// maxValue is how long the value of a label may be, in bytes.
const maxValue = 128

// names are the values that a label has had. They are guarded by the mutex of the
// metrics.
type names struct {
	most int
	seen map[string]bool
}

func newNames(most int) names { return names{most: most, seen: make(map[string]bool)} }

// value is a name as the value of a label can be.
func value(name string) string {
	if len(name) > maxValue || !utf8.ValidString(name) {
		return strings.ToValidUTF8(name[:min(len(name), maxValue)], "")
	}
	return name
}

// label returns the value that stands for a name.
func (n *names) label(name string) string {
	name = value(name)
	switch {
	case n.seen[name]:
		return name
	case len(n.seen) >= n.most:
		return other
	}
	n.seen[strings.Clone(name)] = true // it may be part of a message
	return name
}

// Transport is the word of the semantic conventions for a binding of ours.
func Transport(binding string) string {
	if binding == "stdio" {
		return "pipe"
	}
	return "tcp"
}

// errorTypes are the JSON-RPC codes that are told apart: those that the protocol
// names and the gateway's own. A server could make up any number of others.
var errorTypes = map[string]bool{
	"-32700": true, "-32600": true, "-32601": true, "-32602": true, "-32603": true,
	"-32000": true, "-32001": true, "-32002": true, "-32020": true, "-32021": true, "-32022": true, "-32042": true,
}

// ErrorType is the attribute error.type of a call: empty for one that ended well.
func ErrorType(outcome, code string) string {
	switch {
	case outcome == "ok":
		return ""
	case outcome == "tool_error":
		return "tool_error"
	case code == "":
		return outcome
	case code[0] >= 'a' && code[0] <= 'z' || errorTypes[code]:
		return code
	}
	return other
}

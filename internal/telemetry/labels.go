package telemetry

import (
	"strings"
	"unicode/utf8"
)

// Limits of labels with foreign values. Values beyond a limit are counted as [other].
const (
	maxTools   = 2000
	maxServers = 500
	maxAgents  = 500
	maxBudgets = 200
	maxWords   = 128 // kinds of refusals, phases and other words of the gateway
)

// other is the label value for everything beyond a limit. A tool's name begins with an
// underscore only if its server has no namespace; a tool with this very name is counted
// with the others.
const other = "_other"

// maxValue bounds a label value, in bytes.
const maxValue = 128

// names are the values that a label has had. The mutex of the metrics guards them.
type names struct {
	most int
	seen map[string]bool
}

func newNames(most int) names { return names{most: most, seen: make(map[string]bool)} }

// value returns a name in the form of a label value.
func value(name string) string {
	if len(name) > maxValue || !utf8.ValidString(name) {
		return strings.ToValidUTF8(name[:min(len(name), maxValue)], "")
	}
	return name
}

// label returns the label value of a name.
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

// Transport is the word of the semantic conventions for one of our bindings.
func Transport(binding string) string {
	if binding == "stdio" {
		return "pipe"
	}
	return "tcp"
}

// errorTypes are the JSON-RPC codes that are distinguished: the protocol's and the
// gateway's own. A server could invent any number of others.
var errorTypes = map[string]bool{
	"-32700": true, "-32600": true, "-32601": true, "-32602": true, "-32603": true,
	"-32000": true, "-32001": true, "-32002": true, "-32020": true, "-32021": true, "-32022": true, "-32042": true,
}

// ErrorType is the attribute error.type of a call; empty for a success.
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

package format

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/toolgate/toolgate/config/tree"
)

// assigned is where a module of Python gives the name of a list of servers its value.
var assigned = lazily(`(?m)^MCP_SERVERS(?:[ \t]*:[^=\n]*)?[ \t]*=[ \t]*`)

// word is a name or constant of Python.
var word = lazily(`^[A-Za-z_][A-Za-z0-9_.]*`)

// parsePython reads the one value that a module of Python has for us: what it assigns to
// MCP_SERVERS, written out as a dict. What is allowed in it is YAML in braces. A name or
// a call is a fault, and nothing of the module is run.
func parsePython(data []byte) (*tree.Node, error) {
	at := assigned().FindIndex(data)
	if at == nil {
		return nil, &syntaxError{line: 1, problem: "the module assigns nothing to MCP_SERVERS", hint: "write MCP_SERVERS = { ... } at the beginning of a line"}
	}
	value := data[at[1]:]
	line := func(upTo []byte) int { return 1 + bytes.Count(upTo, []byte("\n")) }
	end, problem, hint := literal(value)
	if problem != "" {
		return nil, &syntaxError{line: line(data[:at[1]+end]), problem: problem, hint: hint}
	}
	// Blank lines before the value keep the numbers of its lines.
	document := append(bytes.Repeat([]byte("\n"), line(data[:at[0]])-1), `{"MCP_SERVERS": `...)
	return parseYAML(append(append(document, value[:end]...), '}'))
}

// literal returns where the dict at the beginning of data ends, or where and why it is
// not one that is written out.
func literal(data []byte) (end int, problem, hint string) {
	const out = "write the dict out, with texts, numbers, lists and dicts alone"
	if len(data) == 0 || data[0] != '{' {
		return 0, "MCP_SERVERS is no dict", out
	}
	depth := 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"' || c == '\'':
			n := quoted(data[i:])
			if n == 0 {
				return i, "this text has no end in its line, or has a backslash in single quotes", "write it on one line, in double quotes"
			}
			i += n - 1
		case c == '#':
			if n := bytes.IndexByte(data[i:], '\n'); n > 0 {
				i += n
			}
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1, "", ""
			}
		case strings.IndexByte(" \t\r\n:,.-0123456789", c) >= 0:
		default:
			name := string(word().Find(data[i:]))
			if name != "True" && name != "False" {
				_, size := utf8.DecodeRune(data[i:])
				return i, "only a running module knows what " + string(data[i:i+max(len(name), size)]) + " is",
					`write the value as a text; the value of a variable of the environment is "${NAME}"`
			}
			i += len(name) - 1
		}
	}
	return len(data), "the dict does not end", out
}

// quoted is how long the text at the beginning of data is, with its quotes; 0 for one
// that YAML reads otherwise.
func quoted(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case data[0]:
			return i + 1
		case '\n':
			return 0
		case '\\':
			if data[0] == '\'' {
				return 0
			}
			i++
		}
	}
	return 0
}

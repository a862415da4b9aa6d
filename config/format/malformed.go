package format

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// This file says in plain words what the libraries have found in a malformed file, where,
// and what to write instead.

// remedy is what to say for a message of a library.
type remedy struct {
	contains      string // in the library's message
	problem, hint string
}

// yamlRemedies and tomlRemedies are searched from the top.
var yamlRemedies = []remedy{
	{"did not find expected key", "this line does not continue the map above it", "indent it like the other keys of that map, and check that quotes and brackets in it are closed"},
	{"did not find expected '-' indicator", "this line does not continue the list above it", "begin it with - at the indentation of the list, or indent it like the key that it belongs to"},
	{"mapping values are not allowed", "a key cannot stand here", "indent it like its neighbours, or put text with a colon into quotes"},
	{"block sequence entries are not allowed", "a list cannot begin here", "begin it on a line of its own, with - in front of each entry"},
	{"mapping keys are not allowed", "a key cannot begin here", "write it on a line of its own"},
	{"could not find expected ':'", "this line is not a key with a value", "write key: value, with a space after the colon"},
	{"did not find expected ',' or '}'", "expected ',' or '}'", "separate entries with commas, and close { with }"},
	{"did not find expected ',' or ']'", "expected ',' or ']'", "separate entries with commas, and close [ with ]"},
	{"found unexpected end of stream", "the quote that begins here is not closed", "close it"},
	{"found unknown escape character", `\ begins an escape in double quotes, and this is none`, `write \\ for a backslash, or use single quotes`},
	{"did not find expected hexdecimal number", `\x, \u and \U need hexadecimal digits`, `write \\ for a backslash, or use single quotes`},
	{"found character that cannot start any token", "no value begins with this character", "put the value into quotes"},
	{"found a tab character", "a tab indents this line", "indent with spaces"},
	{"control characters are not allowed", "a control character stands here", "remove it"},
	{"did not find expected <document start>", "the document ends above this line", "write all of it as one map"},
	{"unknown anchor", "an alias names nothing", "define its anchor above it, or put text that begins with * into quotes"},
	{"did not find expected alphabetic or numeric character", "* and & need a name behind them", "put text that begins with them into quotes"},
	{"undefined tag handle", "this tag is not known", "remove it, or put text that begins with ! into quotes"},
	{"did not find expected node content", "a value is missing here", "write one, or put the text into quotes"},
}

var tomlRemedies = []remedy{
	{"strings cannot have new lines", "the quote on this line is not closed", `close it, or use """ for a text of several lines`},
	{"unterminated", "the quote on this line is not closed", "close it"},
	{"not terminated by", "a text of several lines is not closed", `close it with the three quotes that it begins with`},
	{"array is incomplete", "the list is not closed", "close it with ]"},
	{"inline table is incomplete", "the table is not closed", "close it with }"},
	{"expected ',' or ']'", "expected ',' or ']'", "separate values with commas, and close [ with ]"},
	{"expected ',' or '}'", "expected ',' or '}'", "separate entries with commas, and close { with }"},
	{"expected '=' after key", "this line is not a key with a value", "write key = value"},
	{"expected key but reached end", "this line is not a key with a value", "write key = value"},
	{"to close table name", "the name of a table is not closed", "write it as [name], or [[name]] for one of several"},
	{"unexpected comma", "there is a comma too many", "remove it"},
	{"invalid escape character", `\ begins an escape in double quotes, and this is none`, `write \\ for a backslash, or use single quotes`},
	{"need a character after", `\ begins an escape in double quotes, and this is none`, `write \\ for a backslash, or use single quotes`},
	{"escape sequence", `\u and \U need the hexadecimal digits of a character`, `write \\ for a backslash, or use single quotes`},
	{"strings must be quoted", "text must be in quotes", `write key = "text"`},
	{"U+000A at start of value", "a value is missing", `write one after =, such as "text"`},
	{"at start of value", "text must be in quotes", `write key = "text"`},
	{"expected value", "a value is missing", `write one after =, such as "text"`},
	{"expected newline", "there is more on this line than one key and its value", "write each key on a line of its own"},
	{"invalid character at start of key", "no key begins with this character", `write key = value, and put other keys into quotes`},
}

// malformed returns the error for a message of a library about a line.
func malformed(language string, remedies []remedy, line, column int, message string) error {
	for _, r := range remedies {
		if strings.Contains(message, r.contains) {
			return &syntaxError{line: line, column: column, problem: r.problem, hint: r.hint}
		}
	}
	return &syntaxError{line: line, column: column, problem: "this is not valid " + language + ": " + message}
}

var yamlLine = lazily(`^line (\d+): `)

// yamlSyntax explains an error of the YAML library. The library often names the line
// where the map or list around the fault begins, so the line is searched for.
func yamlSyntax(data []byte, err error) error {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := yamlLine().FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
	}
	if at := yamlFault(data); at > line {
		line = at
	}
	text := lineOf(data, line)
	if indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]; bytes.ContainsRune(indent, '\t') {
		msg = "found a tab character"
	}
	return malformed("YAML", yamlRemedies, line, 1, msg)
}

// yamlFault returns the line that makes the YAML malformed: the text before it can be
// read, and the text with it cannot. It is 0 if that is none of the last lines that the
// library has read, as with a quote that is not closed.
func yamlFault(data []byte) int {
	lines := &lineReader{rest: data}
	if decodes(lines) {
		return 0
	}
	for line := lines.read; line > max(0, lines.read-3); line-- {
		end := lines.ends[line-1]
		before := 0
		if line > 1 {
			before = lines.ends[line-2]
		}
		if !decodes(bytes.NewReader(data[:end])) && decodes(bytes.NewReader(data[:before])) {
			return line
		}
	}
	return 0
}

// decodes reports whether YAML can be read.
func decodes(r io.Reader) bool {
	dec := yaml.NewDecoder(r)
	for {
		var doc yaml.Node
		if err := dec.Decode(&doc); err != nil {
			return err == io.EOF //nolint:errorlint // the library returns it as it is
		}
	}
}

// lineReader hands out one line for each Read, so that it is known how far a parser has
// read.
type lineReader struct {
	rest []byte
	read int   // lines that were read
	ends []int // where each of them ends
	at   int
}

// Read implements [io.Reader].
func (l *lineReader) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		return 0, io.EOF
	}
	n := bytes.IndexByte(l.rest, '\n') + 1
	if n == 0 {
		n = len(l.rest)
	}
	whole := n <= len(p)
	n = copy(p, l.rest[:n])
	l.rest, l.at = l.rest[n:], l.at+n
	if whole {
		l.read++
		l.ends = append(l.ends, l.at)
	}
	return n, nil
}

// lineOf returns a line of a text.
func lineOf(data []byte, line int) []byte {
	for ; line > 1; line-- {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	text, _, _ := bytes.Cut(data, []byte("\n"))
	return text
}

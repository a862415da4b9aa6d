// Package envfile reads env files: lines of NAME=value, in which nothing is expanded.
package envfile

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/format"
)

// maxSize is the largest env file read, in bytes.
const maxSize = 1 << 20

// Read returns the variables of the env file at a path. It reads regular files of at most
// 1 MiB. An error names the first line that is wrong.
func Read(path string) (map[string]string, error) {
	data, err := format.ReadAtMost(path, maxSize)
	if err != nil {
		return nil, err
	}
	return parse(data)
}

// parse reads NAME=value lines: an optional "export", "#" comments,
// single quotes taken literally, double quotes with \n, \r, \t, \" and \\.
// Nothing is expanded.
func parse(data []byte) (map[string]string, error) {
	vars := map[string]string{}
	n := 0
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))) {
		n++
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		if rest, ok := strings.CutPrefix(text, "export "); ok {
			text = strings.TrimSpace(rest)
		}
		name, value, ok := strings.Cut(text, "=")
		name = strings.TrimSpace(name)
		if !ok || !decode.EnvName(name) {
			return nil, fmt.Errorf("line %d is not NAME=value", n)
		}
		value, err := unquote(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		vars[name] = value
	}
	return vars, nil
}

func unquote(s string) (string, error) {
	if s == "" || s[0] != '\'' && s[0] != '"' {
		if i := strings.Index(s, " #"); i >= 0 {
			s = strings.TrimSpace(s[:i])
		}
		return s, nil
	}
	quote := s[0]
	var out strings.Builder
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case c == quote:
			if rest := strings.TrimSpace(s[i+1:]); rest != "" && rest[0] != '#' {
				return "", fmt.Errorf("there is text after the closing quote")
			}
			return out.String(), nil
		case c == '\\' && quote == '"' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				out.WriteByte('\n')
			case 'r':
				out.WriteByte('\r')
			case 't':
				out.WriteByte('\t')
			case '"', '\\':
				out.WriteByte(s[i])
			default:
				out.WriteByte('\\')
				out.WriteByte(s[i])
			}
		default:
			out.WriteByte(c)
		}
	}
	return "", fmt.Errorf("a quote is not closed")
}

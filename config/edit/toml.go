package edit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlHeader is one [table] of a document, by where it stands.
type tomlHeader struct {
	keys []string
	line int // from 0
}

// tomlHeaders lists the tables of a document in order.
func tomlHeaders(data []byte) (out []tomlHeader, err error) {
	defer func() {
		if r := recover(); r != nil { // the expression parser is documented as liable to panic
			out, err = nil, fmt.Errorf("%w: %v", ErrByHand, r)
		}
	}()
	var p unstable.Parser
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		h := tomlHeader{}
		for it := e.Key(); it.Next(); {
			node := it.Node()
			if h.keys == nil {
				offset := int(p.Range(node.Data).Offset)
				if node.Raw.Length > 0 {
					offset = int(node.Raw.Offset)
				}
				h.line = strings.Count(string(data[:offset]), "\n")
			}
			h.keys = append(h.keys, string(node.Data))
		}
		out = append(out, h)
	}
	return out, p.Error()
}

// under tells whether a table is that of a path or below it.
func (h tomlHeader) under(path []string) bool {
	return len(h.keys) >= len(path) && slices.Equal(h.keys[:len(path)], path)
}

func setTOML(data []byte, path []string, key string, value Map) ([]byte, error) {
	rest, err := deleteTOML(data, path, key)
	if err != nil {
		return nil, err
	}
	text := tomlTable(append(slices.Clone(path), key), value)
	if rest = withNewline(rest); len(rest) > 0 {
		text = "\n" + text
	}
	return append(rest, text...), nil
}

func deleteTOML(data []byte, path []string, key string) ([]byte, error) {
	headers, err := tomlHeaders(data)
	if err != nil {
		return nil, err
	}
	full := append(slices.Clone(path), key)
	lines := splitLines(data)
	gone := make([]bool, len(lines))
	for i, h := range headers {
		if !h.under(full) {
			continue
		}
		end := len(lines)
		if i+1 < len(headers) {
			end = headers[i+1].line
			if !headers[i+1].under(full) {
				for end > h.line+1 && (strings.TrimSpace(lines[end-1]) == "" || strings.HasPrefix(strings.TrimSpace(lines[end-1]), "#")) {
					end-- // belongs to the next table
				}
			}
		}
		for j := h.line; j < end; j++ {
			gone[j] = true
		}
	}
	var out []string
	for i, line := range lines {
		if gone[i] {
			if (i == 0 || !gone[i-1]) && len(out) > 0 && strings.TrimSpace(out[len(out)-1]) == "" {
				out = out[:len(out)-1] // the empty line before it
			}
			continue
		}
		out = append(out, line)
	}
	return join(out), nil
}

// tomlTable is a Map as a table of its own, with tables for the Maps in it.
func tomlTable(path []string, m Map) string {
	var b, below strings.Builder
	if len(path) > 0 {
		keys := make([]string, len(path))
		for i, p := range path {
			keys[i] = tomlKey(p)
		}
		b.WriteString("[" + strings.Join(keys, ".") + "]\n")
	}
	for _, f := range m {
		if sub, ok := f.Value.(Map); ok {
			below.WriteString("\n" + tomlTable(append(slices.Clone(path), f.Key), sub))
			continue
		}
		b.WriteString(tomlKey(f.Key) + " = " + jsonText(f.Value, "", "") + "\n")
	}
	return b.String() + below.String()
}

func tomlKey(key string) string {
	bare := key != ""
	for _, r := range key {
		bare = bare && (r == '_' || r == '-' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z')
	}
	if bare {
		return key
	}
	return jsonText(key, "", "")
}

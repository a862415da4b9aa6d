package edit

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlRoot parses a document; nil for an empty one.
func yamlRoot(data []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrByHand, err)
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	return doc.Content[0], nil
}

func yamlGet(n *yaml.Node, key string) (k, v *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

func setYAML(data []byte, path []string, key string, value Map) ([]byte, error) {
	root, err := yamlRoot(data)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return append(withNewline(data), yamlNested(path, key, value, "")...), nil
	}
	n, parent := root, (*yaml.Node)(nil) // parent is the key of n
	for i, p := range path {
		k, v := yamlGet(n, p)
		if k == nil {
			return yamlAppend(data, n, parent, yamlNested(path[i+1:], key, value, ""), p)
		}
		n, parent = v, k
	}
	if k, _ := yamlGet(n, key); k != nil {
		lines := splitLines(data)
		begin, end := k.Line-1, yamlEnd(lines, k)
		if n.Style&yaml.FlowStyle != 0 {
			return nil, fmt.Errorf("%w: %s is written in one line", ErrByHand, strings.Join(path, "."))
		}
		indent := strings.Repeat(" ", k.Column-1)
		text := yamlKey(key) + ":\n" + yamlMap(value, indent+"  ")
		return join(lines[:begin], []string{indent + text}, lines[end:]), nil
	}
	return yamlAppend(data, n, parent, yamlMap(value, ""), key)
}

// yamlAppend adds a key with a block of lines to the end of a map.
func yamlAppend(data []byte, n, parent *yaml.Node, block, key string) ([]byte, error) {
	lines := splitLines(data)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" || n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		if parent == nil {
			return nil, fmt.Errorf("%w: it is empty", ErrByHand)
		}
		at := parent.Line - 1
		line := strings.TrimRight(lines[at], "\r\n")
		before, after := line[:min(len(line), parent.Column-1)], line[min(len(line), parent.Column-1):]
		colon := strings.IndexByte(after, ':')
		rest := strings.TrimSpace(after[colon+1:])
		comment := ""
		if i := strings.Index(rest, "#"); i >= 0 {
			rest, comment = strings.TrimSpace(rest[:i]), " "+rest[i:]
		}
		if colon < 0 || rest != "" && rest != "{}" && rest != "null" && rest != "~" {
			return nil, fmt.Errorf("%w: line %d", ErrByHand, parent.Line)
		}
		indent := strings.Repeat(" ", parent.Column+1)
		return join(lines[:at], []string{before + after[:colon+1] + comment + "\n"},
			[]string{indent + yamlKey(key) + ":\n" + indented(block, indent+"  ")}, lines[at+1:]), nil
	}
	if n.Kind != yaml.MappingNode || n.Style&yaml.FlowStyle != 0 {
		return nil, fmt.Errorf("%w: what %s would be added to is written in one line", ErrByHand, key)
	}
	last := n.Content[len(n.Content)-2]
	end := yamlEnd(lines, last)
	if end == len(lines) && end > 0 && !strings.HasSuffix(lines[end-1], "\n") {
		lines = slices.Clone(lines)
		lines[end-1] += "\n"
	}
	indent := strings.Repeat(" ", last.Column-1)
	return join(lines[:end], []string{indent + yamlKey(key) + ":\n" + indented(block, indent+"  ")}, lines[end:]), nil
}

func deleteYAML(data []byte, path []string, key string) ([]byte, error) {
	root, err := yamlRoot(data)
	if err != nil {
		return nil, err
	}
	n, parent := root, (*yaml.Node)(nil)
	for _, p := range path {
		k, v := yamlGet(n, p)
		if k == nil {
			return data, nil
		}
		n, parent = v, k
	}
	k, _ := yamlGet(n, key)
	if k == nil {
		return data, nil
	}
	if n.Style&yaml.FlowStyle != 0 {
		return nil, fmt.Errorf("%w: %s is written in one line", ErrByHand, strings.Join(path, "."))
	}
	lines := splitLines(data)
	out := slices.Concat(lines[:k.Line-1], lines[yamlEnd(lines, k):])
	if len(n.Content) == 2 && parent != nil { // it was the only one
		at := parent.Line - 1
		line := strings.TrimRight(out[at], "\r\n")
		colon := strings.IndexByte(line[parent.Column-1:], ':') + parent.Column - 1
		out[at] = line[:colon+1] + " {}" + line[colon+1:] + "\n"
	}
	return join(out), nil
}

// yamlEnd is the number of lines up to the end of the entry of a key: those after
// it that are indented further. Empty lines and comments at its end belong to what
// follows.
func yamlEnd(lines []string, key *yaml.Node) int {
	end := key.Line
	for i := key.Line; i < len(lines); i++ {
		text := strings.TrimRight(lines[i], " \t\r\n")
		if text == "" {
			continue
		}
		trimmed := strings.TrimLeft(text, " ")
		indent := len(text) - len(trimmed)
		if indent <= key.Column-1 && !(indent == key.Column-1 && strings.HasPrefix(trimmed, "- ")) {
			break
		}
		end = i + 1
	}
	return end
}

// splitLines keeps the ends of lines.
func splitLines(data []byte) []string {
	var out []string
	for line := range bytes.Lines(data) {
		out = append(out, string(line))
	}
	return out
}

func join(parts ...[]string) []byte {
	var b strings.Builder
	for _, p := range parts {
		for _, line := range p {
			b.WriteString(line)
		}
	}
	return []byte(b.String())
}

func withNewline(data []byte) []byte {
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return append(slices.Clone(data), '\n')
	}
	return slices.Clone(data)
}

// indented puts white space before each line of a block.
func indented(block, indent string) string {
	var b strings.Builder
	for line := range strings.Lines(block) {
		b.WriteString(indent + line)
	}
	return b.String()
}

// yamlNested is a key with a Map, inside the maps of a path.
func yamlNested(path []string, key string, value Map, indent string) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteString(indent + yamlKey(p) + ":\n")
		indent += "  "
	}
	b.WriteString(indent + yamlKey(key) + ":\n" + yamlMap(value, indent+"  "))
	return b.String()
}

// yamlMap renders a Map in lines; lists of texts are on one line.
func yamlMap(m Map, indent string) string {
	var b strings.Builder
	for _, f := range m {
		switch v := f.Value.(type) {
		case Map:
			if len(v) == 0 {
				b.WriteString(indent + yamlKey(f.Key) + ": {}\n")
				continue
			}
			b.WriteString(indent + yamlKey(f.Key) + ":\n" + yamlMap(v, indent+"  "))
		case []Map:
			b.WriteString(indent + yamlKey(f.Key) + ":\n")
			for _, item := range v {
				text := yamlMap(item, indent+"    ")
				b.WriteString(indent + "  - " + strings.TrimPrefix(text, indent+"    "))
			}
		default:
			b.WriteString(indent + yamlKey(f.Key) + ": " + yamlScalar(v) + "\n")
		}
	}
	return b.String()
}

// yamlKey writes a key bare where nobody can take it for anything else.
func yamlKey(key string) string { return yamlWord(key) }

func yamlScalar(v any) string {
	switch v := v.(type) {
	case string:
		return yamlWord(v)
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	}
	return jsonText(v, "", "") // a list of texts; JSON is YAML
}

// yamlWord writes a text bare where that is surely a text, else quoted as in JSON,
// which YAML reads.
func yamlWord(text string) string {
	bare := text != "" && (text[0]|0x20 >= 'a' && text[0]|0x20 <= 'z' || text[0] == '/')
	for _, r := range text {
		bare = bare && (r == '_' || r == '-' || r == '/' || r == '.' || r == '@' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z')
	}
	switch strings.ToLower(text) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
		bare = false
	}
	if bare {
		return text
	}
	return jsonText(text, "", "")
}

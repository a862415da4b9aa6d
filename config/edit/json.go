package edit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// member is one entry of an object, by where it stands.
type member struct {
	key                string
	start              int // of the key
	valueStart, valEnd int
	comma              int // after it; -1 for none
}

// object is an object of a document, by where it stands.
type object struct {
	open, end int // of the braces
	members   []member
}

// scanner finds its way through JSON with comments that is known to be well
// formed.
type scanner struct {
	data []byte
	pos  int
}

// space skips white space and comments.
func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			s.pos++
		case c == '/' && s.pos+1 < len(s.data) && s.data[s.pos+1] == '/':
			for s.pos < len(s.data) && s.data[s.pos] != '\n' {
				s.pos++
			}
		case c == '/' && s.pos+1 < len(s.data) && s.data[s.pos+1] == '*':
			end := bytes.Index(s.data[s.pos+2:], []byte("*/"))
			if end < 0 {
				s.pos = len(s.data)
				return
			}
			s.pos += end + 4
		default:
			return
		}
	}
}

func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) text() (start, end int) {
	start = s.pos
	for s.pos++; s.pos < len(s.data) && s.data[s.pos] != '"'; s.pos++ {
		if s.data[s.pos] == '\\' {
			s.pos++
		}
	}
	s.pos = min(s.pos+1, len(s.data))
	return start, s.pos
}

// skip passes over one value.
func (s *scanner) skip() {
	switch s.peek() {
	case '"':
		s.text()
	case '{':
		s.object()
	case '[':
		s.pos++
		for {
			s.space()
			switch s.peek() {
			case ']', 0:
				s.pos++
				return
			case ',':
				s.pos++
			default:
				s.skip()
			}
		}
	default:
		began := s.pos
		for s.pos < len(s.data) && !strings.ContainsRune(",]} \t\r\n/", rune(s.data[s.pos])) {
			s.pos++
		}
		if s.pos == began {
			s.pos++ // never stands still
		}
	}
}

func (s *scanner) object() object {
	o := object{open: s.pos}
	s.pos++
	for {
		s.space()
		if s.peek() != '"' {
			break
		}
		m := member{comma: -1}
		var end int
		m.start, end = s.text()
		_ = json.Unmarshal(s.data[m.start:end], &m.key)
		s.space()
		s.pos++ // the colon
		s.space()
		m.valueStart = s.pos
		s.skip()
		m.valEnd = s.pos
		s.space()
		if s.peek() == ',' {
			m.comma = s.pos
			s.pos++
		}
		o.members = append(o.members, m)
	}
	o.end = s.pos
	s.pos = min(s.pos+1, len(s.data))
	return o
}

// objectAt finds the object at a path: found of its keys are there.
func objectAt(data []byte, path []string) (o object, found int, err error) {
	s := scanner{data: data}
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		s.pos = 3
	}
	s.space()
	if s.peek() != '{' {
		return o, 0, fmt.Errorf("%w: it does not begin with {", ErrByHand)
	}
	o = s.object()
	for i, key := range path {
		j := slices.IndexFunc(o.members, func(m member) bool { return m.key == key })
		if j < 0 {
			return o, i, nil
		}
		s.pos = o.members[j].valueStart
		if s.peek() != '{' {
			return o, i, fmt.Errorf("%w: %s is not a map", ErrByHand, key)
		}
		o = s.object()
	}
	return o, len(path), nil
}

func setJSON(data []byte, path []string, key string, value Map) ([]byte, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		m := Map{{key, value}}
		for _, p := range slices.Backward(path) {
			m = Map{{p, m}}
		}
		return append([]byte(jsonText(m, "", "  ")), '\n'), nil
	}
	o, found, err := objectAt(data, path)
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Backward(path[found:]) {
		key, value = p, Map{{key, value}}
	}
	unit := unitOf(data)
	for _, m := range o.members {
		if m.key == key {
			text := jsonText(value, lineIndent(data, m.start), unit)
			return slices.Concat(data[:m.valueStart], []byte(text), data[m.valEnd:]), nil
		}
	}
	name := jsonText(key, "", "") + ": "
	end := "\n"
	if bytes.Contains(data, []byte("\r\n")) {
		end = "\r\n"
	}
	if len(o.members) == 0 {
		outer := lineIndent(data, o.open)
		text := end + outer + unit + name + jsonText(value, outer+unit, unit) + end + outer
		if inside := data[o.open+1 : o.end]; len(bytes.TrimSpace(inside)) > 0 { // comments
			text = end + outer + unit + name + jsonText(value, outer+unit, unit)
			return slices.Concat(data[:o.open+1], bytes.TrimRight(inside, " \t\r\n"), []byte(text+end+outer), data[o.end:]), nil
		}
		return slices.Concat(data[:o.open+1], []byte(crlf(text, end)), data[o.end:]), nil
	}
	last := o.members[len(o.members)-1]
	if !bytes.Contains(data[o.open:last.start], []byte("\n")) { // all on one line
		text := ", " + name + jsonText(value, "", "")
		if last.comma >= 0 {
			return slices.Concat(data[:last.comma], []byte(text), data[last.comma:]), nil
		}
		return slices.Concat(data[:last.valEnd], []byte(text), data[last.valEnd:]), nil
	}
	indent := lineIndent(data, last.start)
	text := crlf(end+indent+name+jsonText(value, indent, unit), end)
	after := last.valEnd
	if last.comma >= 0 {
		after = last.comma + 1
		text += ","
	}
	rest := restOfLine(data, after)
	if last.comma >= 0 {
		return slices.Concat(data[:rest], []byte(text), data[rest:]), nil
	}
	return slices.Concat(data[:last.valEnd], []byte(","), data[last.valEnd:rest], []byte(text), data[rest:]), nil
}

func deleteJSON(data []byte, path []string, key string) ([]byte, error) {
	o, found, err := objectAt(data, path)
	if err != nil || found < len(path) {
		return data, err
	}
	i := slices.IndexFunc(o.members, func(m member) bool { return m.key == key })
	if i < 0 {
		return data, nil
	}
	m := o.members[i]
	begin := m.start
	for begin > 0 && (data[begin-1] == ' ' || data[begin-1] == '\t') {
		begin--
	}
	switch {
	case begin > 1 && data[begin-1] == '\n' && data[begin-2] == '\r':
		begin -= 2
	case begin > 0 && data[begin-1] == '\n':
		begin--
	}
	if m.comma >= 0 {
		out := slices.Concat(data[:begin], data[m.comma+1:])
		return collapse(out, path), nil
	}
	if i == 0 {
		return collapse(slices.Concat(data[:begin], data[m.valEnd:]), path), nil
	}
	comma := o.members[i-1].comma
	return slices.Concat(data[:comma], data[comma+1:max(begin, comma+1)], data[m.valEnd:]), nil
}

// collapse writes {} for an object that has only white space in it.
func collapse(data []byte, path []string) []byte {
	o, found, err := objectAt(data, path)
	if err != nil || found < len(path) || len(o.members) > 0 || len(bytes.TrimSpace(data[o.open+1:o.end])) > 0 {
		return data
	}
	return slices.Concat(data[:o.open+1], data[o.end:])
}

// restOfLine returns where a line ends after pos, comments on it included.
func restOfLine(data []byte, pos int) int {
	s := scanner{data: data, pos: pos}
	for s.pos < len(data) {
		switch {
		case data[s.pos] == ' ' || data[s.pos] == '\t':
			s.pos++
		case bytes.HasPrefix(data[s.pos:], []byte("//")):
			for s.pos < len(data) && data[s.pos] != '\n' {
				s.pos++
			}
			if data[s.pos-1] == '\r' {
				s.pos--
			}
			return s.pos
		case bytes.HasPrefix(data[s.pos:], []byte("/*")):
			end := bytes.Index(data[s.pos:], []byte("*/"))
			if end < 0 || bytes.Contains(data[s.pos:s.pos+end], []byte("\n")) {
				return pos
			}
			s.pos += end + 2
		case data[s.pos] == '\n' || data[s.pos] == '\r':
			return s.pos
		default:
			return pos
		}
	}
	return s.pos
}

// lineIndent is the white space that the line of a position begins with.
func lineIndent(data []byte, pos int) string {
	begin := bytes.LastIndexByte(data[:pos], '\n') + 1
	end := begin
	for end < len(data) && (data[end] == ' ' || data[end] == '\t') {
		end++
	}
	return string(data[begin:end])
}

// unitOf is what one level of a document is indented by.
func unitOf(data []byte) string {
	for line := range bytes.Lines(data) {
		trimmed := bytes.TrimLeft(line, " \t")
		if n := len(line) - len(trimmed); n > 0 && len(trimmed) > 0 && trimmed[0] == '"' {
			return string(line[:n])
		}
	}
	return "  "
}

func crlf(text, end string) string {
	if end == "\n" {
		return text
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", end)
}

// jsonText renders a value. With a unit, maps are on lines of their own, the
// first at indent; without one all is on one line. Lists of texts are on one line.
func jsonText(value any, indent, unit string) string {
	switch v := value.(type) {
	case Map:
		if len(v) == 0 {
			return "{}"
		}
		parts := make([]string, len(v))
		for i, f := range v {
			parts[i] = jsonText(f.Key, "", "") + ": " + jsonText(f.Value, indent+unit, unit)
		}
		if unit == "" {
			return "{ " + strings.Join(parts, ", ") + " }"
		}
		return "{\n" + indent + unit + strings.Join(parts, ",\n"+indent+unit) + "\n" + indent + "}"
	case []Map:
		parts := make([]string, len(v))
		for i, m := range v {
			parts[i] = jsonText(m, indent, unit)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case []string:
		parts := make([]string, len(v))
		for i, s := range v {
			parts[i] = jsonText(s, "", "")
		}
		return "[" + strings.Join(parts, ", ") + "]"
	default:
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			return "null"
		}
		return strings.TrimSuffix(out.String(), "\n")
	}
}

package format

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/toolgate/toolgate/config/tree"
)

// jsonParser reads JSON as editors write it: with // and /* */ comments and
// with a comma after the last element. Everything else is RFC 8259.
type jsonParser struct {
	data  []byte
	pos   int
	nodes int
	where positions
}

func parseJSON(data []byte) (*tree.Node, error) {
	p := &jsonParser{data: data, where: newPositions(data)}
	if err := p.space(); err != nil {
		return nil, err
	}
	if p.pos == len(p.data) {
		return &tree.Node{Kind: tree.KindMap, Line: 1, Column: 1}, nil
	}
	root, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if err := p.space(); err != nil {
		return nil, err
	}
	if p.pos < len(p.data) {
		return nil, p.fail(p.pos, "remove it", "there is %s after the end of the document", p.found())
	}
	return root, nil
}

func (p *jsonParser) fail(offset int, hint, format string, args ...any) error {
	line, col := p.where.at(offset)
	return &syntaxError{line: line, column: col, problem: fmt.Sprintf(format, args...), hint: hint}
}

// found describes what stands at the current position.
func (p *jsonParser) found() string {
	if p.pos >= len(p.data) {
		return "the end of the file"
	}
	r, _ := utf8.DecodeRune(p.data[p.pos:])
	return strconv.QuoteRune(r)
}

func (p *jsonParser) peek() byte {
	if p.pos < len(p.data) {
		return p.data[p.pos]
	}
	return 0
}

// space skips white space and comments.
func (p *jsonParser) space() error {
	for p.pos < len(p.data) {
		switch p.data[p.pos] {
		case ' ', '\t', '\r', '\n':
			p.pos++
		case '/':
			start := p.pos
			switch {
			case p.pos+1 < len(p.data) && p.data[p.pos+1] == '/':
				for p.pos < len(p.data) && p.data[p.pos] != '\n' {
					p.pos++
				}
			case p.pos+1 < len(p.data) && p.data[p.pos+1] == '*':
				p.pos += 2
				for {
					if p.pos+1 >= len(p.data) {
						return p.fail(start, "end it with */", "this comment has no end")
					}
					if p.data[p.pos] == '*' && p.data[p.pos+1] == '/' {
						p.pos += 2
						break
					}
					p.pos++
				}
			default:
				return p.fail(p.pos, "", "expected a value or a comment, found '/'")
			}
		default:
			return nil
		}
	}
	return nil
}

func (p *jsonParser) value(depth int) (*tree.Node, error) {
	line, col := p.where.at(p.pos)
	if p.nodes++; p.nodes > MaxNodes {
		return nil, tooMany(line, col, MaxNodes)
	}
	n := &tree.Node{Line: line, Column: col}
	switch c := p.peek(); {
	case c == '{' || c == '[':
		if depth >= MaxDepth {
			return nil, tooDeep(line, col)
		}
		if c == '{' {
			return n, p.object(n, depth+1)
		}
		return n, p.array(n, depth+1)
	case c == '"':
		s, err := p.str()
		n.Kind, n.Value = tree.KindString, s
		return n, err
	case c == '-' || c >= '0' && c <= '9':
		return n, p.number(n)
	}
	for _, lit := range [...]struct {
		text string
		kind tree.Kind
	}{{"true", tree.KindBool}, {"false", tree.KindBool}, {"null", tree.KindNull}} {
		if p.word() == lit.text {
			p.pos += len(lit.text)
			n.Kind = lit.kind
			if lit.kind == tree.KindBool {
				n.Value = lit.text
			}
			return n, nil
		}
	}
	hint := ""
	if p.peek() == '\'' || p.word() != "" {
		hint = `put text in double quotes`
	}
	return nil, p.fail(p.pos, hint, "expected a value, found %s", p.found())
}

// word is the run of letters at the current position.
func (p *jsonParser) word() string {
	end := p.pos
	for end < len(p.data) && end-p.pos < 16 && (p.data[end]|0x20 >= 'a' && p.data[end]|0x20 <= 'z') {
		end++
	}
	return string(p.data[p.pos:end])
}

func (p *jsonParser) number(n *tree.Node) error {
	start := p.pos
	for p.pos < len(p.data) {
		c := p.data[p.pos]
		if c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c|0x20 >= 'a' && c|0x20 <= 'z' {
			p.pos++
			continue
		}
		break
	}
	raw := p.data[start:p.pos]
	if !json.Valid(raw) {
		return p.fail(start, "", "%.40q is not a number", raw)
	}
	n.Kind, n.Value = tree.KindNumber, string(raw)
	return nil
}

func (p *jsonParser) object(n *tree.Node, depth int) error {
	n.Kind = tree.KindMap
	open := p.pos
	p.pos++
	seen := map[string]int{}
	for {
		if err := p.space(); err != nil {
			return err
		}
		if p.peek() == '}' {
			p.pos++
			return nil
		}
		if p.peek() != '"' {
			return p.expected(open, "a key in double quotes or '}'")
		}
		line, col := p.where.at(p.pos)
		key, err := p.str()
		if err != nil {
			return err
		}
		if first, dup := seen[key]; dup {
			return duplicateKey(key, line, col, first)
		}
		seen[key] = line
		if err := p.space(); err != nil {
			return err
		}
		if p.peek() != ':' {
			return p.expected(open, "':' after the key")
		}
		p.pos++
		if err := p.space(); err != nil {
			return err
		}
		v, err := p.value(depth)
		if err != nil {
			return under(key, err)
		}
		n.Fields = append(n.Fields, tree.Field{Key: key, Line: line, Column: col, Value: v})
		if err := p.space(); err != nil {
			return err
		}
		switch p.peek() {
		case ',':
			p.pos++
		case '}':
		default:
			return p.expected(open, "',' or '}'")
		}
	}
}

func (p *jsonParser) array(n *tree.Node, depth int) error {
	n.Kind = tree.KindList
	open := p.pos
	p.pos++
	for {
		if err := p.space(); err != nil {
			return err
		}
		if p.peek() == ']' {
			p.pos++
			return nil
		}
		v, err := p.value(depth)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, v)
		if err := p.space(); err != nil {
			return err
		}
		switch p.peek() {
		case ',':
			p.pos++
		case ']':
		default:
			return p.expected(open, "',' or ']'")
		}
	}
}

// expected reports a missing token; at the end of the file it says where the
// unclosed bracket is.
func (p *jsonParser) expected(open int, what string) error {
	if p.pos >= len(p.data) {
		line, _ := p.where.at(open)
		return p.fail(len(p.data), "close it", "the file ends inside the %q opened on line %d", p.data[open], line)
	}
	return p.fail(p.pos, "", "expected %s, found %s", what, p.found())
}

func (p *jsonParser) str() (string, error) {
	start := p.pos
	p.pos++
	var out []byte
	for {
		if p.pos >= len(p.data) || p.data[p.pos] == '\n' {
			return "", p.fail(start, `end it with a double quote`, "this string has no end")
		}
		c := p.data[p.pos]
		switch {
		case c == '"':
			p.pos++
			return string(out), nil
		case c < 0x20:
			return "", p.fail(p.pos, fmt.Sprintf(`write \u%04x`, c), "a control character inside a string")
		case c != '\\':
			out = append(out, c)
			p.pos++
		default:
			var err error
			if out, err = p.escape(out); err != nil {
				return "", err
			}
		}
	}
}

func (p *jsonParser) escape(out []byte) ([]byte, error) {
	start := p.pos
	p.pos++
	c := p.peek()
	p.pos++
	switch c {
	case '"', '\\', '/':
		return append(out, c), nil
	case 'b':
		return append(out, '\b'), nil
	case 'f':
		return append(out, '\f'), nil
	case 'n':
		return append(out, '\n'), nil
	case 'r':
		return append(out, '\r'), nil
	case 't':
		return append(out, '\t'), nil
	case 'u':
		r, ok := p.hex4()
		if ok && utf16.IsSurrogate(r) {
			ok = false
			if p.peek() == '\\' && p.pos+1 < len(p.data) && p.data[p.pos+1] == 'u' {
				p.pos += 2
				low, lowOK := p.hex4()
				r = utf16.DecodeRune(r, low)
				ok = lowOK && r != utf8.RuneError
			}
		}
		if ok {
			return utf8.AppendRune(out, r), nil
		}
	}
	return nil, p.fail(start, `write \\ for a backslash`, "this escape sequence is not one of JSON's")
}

func (p *jsonParser) hex4() (rune, bool) {
	if p.pos+4 > len(p.data) {
		return 0, false
	}
	v, err := strconv.ParseUint(string(p.data[p.pos:p.pos+4]), 16, 16)
	if err != nil {
		return 0, false
	}
	p.pos += 4
	return rune(v), true
}

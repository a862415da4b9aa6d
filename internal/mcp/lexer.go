package mcp

import "bytes"

// Lexer reads a JSON text token by token, for decoding whole values. The text must have
// passed [Validate]: the lexer treats commas and colons as white space and does not
// check the order of tokens. From any other text it reads something, but never beyond
// its end.
type Lexer struct {
	text []byte
	at   int
}

// NewLexer returns a lexer at the start of a text, which it does not modify.
func NewLexer(text []byte) Lexer { return Lexer{text: text} }

// Peek returns the first byte of the next token, 0 at the end.
func (l *Lexer) Peek() byte {
	for l.at < len(l.text) {
		switch c := l.text[l.at]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
			l.at++
		default:
			return c
		}
	}
	return 0
}

// Skip skips n bytes of the peeked token: a bracket or a literal.
func (l *Lexer) Skip(n int) { l.at = min(l.at+n, len(l.text)) }

// Offset returns the offset of the peeked token.
func (l *Lexer) Offset() int { return l.at }

// RawText reads the peeked string as it is written.
func (l *Lexer) RawText() []byte {
	start := l.at
	l.at = skipString(l.text, l.at)
	return l.text[start:l.at]
}

// Text reads the peeked string.
func (l *Lexer) Text() (string, error) {
	raw := l.RawText()
	if len(raw) >= 2 && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	return Unquote(raw)
}

// Number reads the peeked number as it is written. It consumes at least one byte.
func (l *Lexer) Number() string {
	start := l.at
	for l.Skip(1); l.at < len(l.text) && isNumeric[l.text[l.at]]; l.at++ {
	}
	return string(l.text[start:l.at])
}

var isNumeric = func() (set [256]bool) {
	for _, c := range []byte("+-.0123456789eE") {
		set[c] = true
	}
	return set
}()

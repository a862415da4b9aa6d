package mcp

import (
	"errors"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

var errNotString = errors.New("not a JSON string")

// Unquote returns the text of a validated JSON string token. Unpaired surrogates become
// U+FFFD. It returns an error when raw is not a string.
func Unquote(raw []byte) (string, error) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", errNotString
	}
	return unescape(raw[1 : len(raw)-1]), nil
}

// unescape returns the text between the quotes of a validated string.
func unescape(text []byte) string {
	if slices.Contains(text, '\\') {
		return string(appendUnescaped(make([]byte, 0, len(text)), text))
	}
	return string(text)
}

// unescaped is unescape without a copy where none is needed.
func unescaped(text []byte) []byte {
	if slices.Contains(text, '\\') {
		return appendUnescaped(make([]byte, 0, len(text)), text)
	}
	return text
}

// appendUnescaped appends the text between the quotes of a validated string.
func appendUnescaped(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		if i+1 >= len(text) {
			return dst
		}
		switch c := text[i+1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(text, i+2)
			i += 6
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if i+1 < len(text) && text[i] == '\\' && text[i+1] == 'u' {
					low, _ := hex4(text, i+2)
					pair = utf16.DecodeRune(r, low)
				}
				if r = pair; r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		default:
			dst = append(dst, c)
		}
		i += 2
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// AppendQuote appends s as a JSON string with the fewest escapes: quote,
// backslash and control characters. Invalid UTF-8 becomes U+FFFD.
func AppendQuote(dst []byte, s string) []byte {
	return append(appendEscaped(append(dst, '"'), s), '"')
}

// appendEscaped appends the text between the quotes of a JSON string.
func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			dst = append(dst, s[from:i]...)
			dst = append(dst, "\uFFFD"...)
			i++
			from = i
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF])
		}
		i++
		from = i
	}
	return append(dst, s[from:]...)
}

// Quote returns s as a JSON string.
func Quote(s string) []byte {
	return AppendQuote(make([]byte, 0, len(s)+2), s)
}

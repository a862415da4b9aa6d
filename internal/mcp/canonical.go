package mcp

import (
	"crypto/sha256"
	"slices"
	"strings"
	"unicode/utf16"
)

// AppendCanonical appends the canonical form of a validated value: keys sorted by their
// UTF-8 bytes, no white space, the fewest escapes, numbers as received. Two values have
// the same form if and only if they differ only in spelling. The spelling of a number
// is part of its value, and an unpaired surrogate keeps its escape.
func AppendCanonical(dst, value []byte) []byte {
	i := skipSpace(value, 0)
	if i >= len(value) {
		return dst
	}
	c := canonicalizer{text: value, nested: containers(value)}
	return c.value(dst, i, 0)
}

// Hash returns the SHA-256 of the canonical form of a validated value. A nil value
// hashes like an empty object, as absent arguments do.
func Hash(value []byte) [sha256.Size]byte {
	if value == nil {
		value = []byte("{}")
	}
	return sha256.Sum256(AppendCanonical(make([]byte, 0, len(value)), value))
}

// container is an object or array of a document. It lets the canonicalizer skip values
// without reading them again, so that the work is proportional to the size of the
// document at any depth.
type container struct {
	end  int // index after its closing bracket
	next int // index of the first container after it
}

// containers lists the objects and arrays of a document in order of opening.
func containers(text []byte) []container {
	var all []container
	var open []int
	for i := 0; i < len(text); {
		switch text[i] {
		case '"':
			i = skipString(text, i)
			continue
		case '{', '[':
			open = append(open, len(all))
			all = append(all, container{})
		case '}', ']':
			last := len(open) - 1
			if last < 0 {
				return all
			}
			all[open[last]] = container{i + 1, len(all)}
			open = open[:last]
		}
		i++
	}
	return all
}

// canonicalizer writes the canonical form of one document.
type canonicalizer struct {
	text   []byte
	nested []container
	fields []canonicalField // of the objects under way, innermost last
}

// canonicalField is a member of an object: its key without escapes, the start of its
// value, and the index of the first container from there on.
type canonicalField struct {
	key       string
	at, inner int
}

// value appends the value at i, where n is the index of the next container.
func (c *canonicalizer) value(dst []byte, i, n int) []byte {
	switch c.text[i] {
	case '{':
		return c.object(dst, i, n)
	case '[':
		return c.array(dst, i, n)
	case '"':
		return appendCanonicalString(dst, c.text[i+1:skipString(c.text, i)-1])
	default:
		return append(dst, c.text[i:skipValue(c.text, i)]...)
	}
}

// skip returns the index after the value at i and the index of the next container from
// there on.
func (c *canonicalizer) skip(i, n int) (int, int) {
	if b := c.text[i]; b == '{' || b == '[' {
		return c.nested[n].end, c.nested[n].next
	}
	return skipValue(c.text, i), n
}

func (c *canonicalizer) object(dst []byte, i, n int) []byte {
	first := len(c.fields)
	n++
	for i = skipSpace(c.text, i+1); c.text[i] == '"'; {
		start := i + 1
		i = skipString(c.text, i)
		key := unescape(c.text[start : i-1])
		i = skipSpace(c.text, skipSpace(c.text, i)+1)
		c.fields = append(c.fields, canonicalField{key, i, n})
		i, n = c.skip(i, n)
		if i = skipSpace(c.text, i); c.text[i] == ',' {
			i = skipSpace(c.text, i+1)
		}
	}
	slices.SortFunc(c.fields[first:], func(a, b canonicalField) int {
		return strings.Compare(a.key, b.key)
	})
	dst = append(dst, '{')
	for j, last := first, len(c.fields); j < last; j++ {
		if j > first {
			dst = append(dst, ',')
		}
		f := c.fields[j]
		dst = append(AppendQuote(dst, f.key), ':')
		dst = c.value(dst, f.at, f.inner)
	}
	c.fields = c.fields[:first]
	return append(dst, '}')
}

func (c *canonicalizer) array(dst []byte, i, n int) []byte {
	n++
	dst = append(dst, '[')
	for i = skipSpace(c.text, i+1); c.text[i] != ']'; {
		dst = c.value(dst, i, n)
		i, n = c.skip(i, n)
		if i = skipSpace(c.text, i); c.text[i] == ',' {
			dst = append(dst, ',')
			i = skipSpace(c.text, i+1)
		}
	}
	return append(dst, ']')
}

// appendCanonicalString appends the text between the quotes of a validated string, with
// the fewest escapes. Accepted unpaired surrogates keep their escapes: U+FFFD would
// make different texts equal.
func appendCanonicalString(dst, text []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			i++
			continue
		}
		size := 2
		if text[i+1] == 'u' {
			size = 6
			if r, _ := hex4(text, i+2); utf16.IsSurrogate(r) {
				low, _ := hex4(text, i+8)
				if i+7 >= len(text) || text[i+6] != '\\' || text[i+7] != 'u' || utf16.DecodeRune(r, low) == '\uFFFD' {
					dst = append(dst, text[from:i]...)
					dst = append(dst, '\\', 'u', 'd', hexDigits[r>>8&0xF], hexDigits[r>>4&0xF], hexDigits[r&0xF])
					i += size
					from = i
					continue
				}
				size = 12
			}
		}
		dst = append(dst, text[from:i]...)
		var plain [4]byte
		dst = appendEscaped(dst, appendUnescaped(plain[:0], text[i:i+size]))
		i += size
		from = i
	}
	dst = append(dst, text[from:]...)
	return append(dst, '"')
}

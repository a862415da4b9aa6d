package mcp

import (
	"bytes"
	"iter"
)

// Span is a half-open range of bytes. The zero Span is absent.
type Span struct{ Start, End int }

// Absent reports whether nothing was found.
func (s Span) Absent() bool { return s.End == 0 }

// Of returns the bytes of s in b, nil when s is absent. Its capacity is cut, so that an
// append never writes into b.
func (s Span) Of(b []byte) []byte {
	if s.Absent() {
		return nil
	}
	return b[s.Start:s.End:s.End]
}

// Member is one member of an object: its whole text, the key between its quotes, and
// the value.
type Member struct {
	All, KeyText, Value Span
}

// Key returns the key with its quotes, as it stands in the object.
func (m *Member) Key(object []byte) []byte {
	return Span{m.KeyText.Start - 1, m.KeyText.End + 1}.Of(object)
}

// Members yields the members of a validated object in order. Anything else has none.
func Members(object []byte) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		i := skipSpace(object, 0)
		if i >= len(object) || object[i] != '{' {
			return
		}
		for i = skipSpace(object, i+1); i < len(object) && object[i] == '"'; {
			start := i
			i = skipString(object, i)
			key := Span{start + 1, i - 1}
			i = skipSpace(object, skipSpace(object, i)+1)
			begin := i
			i = skipValue(object, i)
			if !yield(Member{Span{start, i}, key, Span{begin, i}}) {
				return
			}
			if i = skipSpace(object, i); i < len(object) && object[i] == ',' {
				i = skipSpace(object, i+1)
			}
		}
	}
}

// Elements yields the elements of a validated array in order. Anything else has none.
func Elements(array []byte) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		i := skipSpace(array, 0)
		if i >= len(array) || array[i] != '[' {
			return
		}
		for i = skipSpace(array, i+1); i < len(array) && array[i] != ']'; {
			begin := i
			i = skipValue(array, i)
			if i == begin || !yield(Span{begin, i}) {
				return
			}
			if i = skipSpace(array, i); i < len(array) && array[i] == ',' {
				i = skipSpace(array, i+1)
			}
		}
	}
}

// Lookup returns the value at a path of keys in a validated object, nil when it is
// absent. Keys are compared without their escapes.
func Lookup(object []byte, path ...string) []byte {
	s := LookupSpan(object, path...)
	return s.Of(object)
}

// LookupSpan is [Lookup] for the position of the value.
func LookupSpan(object []byte, path ...string) Span {
	at := Span{0, len(object)}
	for _, key := range path {
		found := Span{}
		for m := range Members(object[at.Start:at.End]) {
			if keyIs(object[at.Start+m.KeyText.Start:at.Start+m.KeyText.End], key) {
				found = Span{at.Start + m.Value.Start, at.Start + m.Value.End}
				break
			}
		}
		if found.Absent() {
			return Span{}
		}
		at = found
	}
	return at
}

// LookupString returns the text of the string at a path; ok is false when there is
// none.
func LookupString(object []byte, path ...string) (text string, ok bool) {
	text, err := Unquote(Lookup(object, path...))
	return text, err == nil
}

// IsObject reports whether a validated value is an object.
func IsObject(value []byte) bool {
	i := skipSpace(value, 0)
	return i < len(value) && value[i] == '{'
}

// IsArray reports whether a validated value is an array.
func IsArray(value []byte) bool {
	i := skipSpace(value, 0)
	return i < len(value) && value[i] == '['
}

// keyIs compares a key between its quotes with a name.
func keyIs(text []byte, name string) bool {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text) == name
	}
	return unescape(text) == name
}

// skipString returns the index after the validated string at i.
func skipString(d []byte, i int) int {
	for i++; i < len(d); {
		n := bytes.IndexByte(d[i:], '"')
		if n < 0 {
			return len(d)
		}
		i += n
		slashes := 0
		for j := i - 1; j >= 0 && d[j] == '\\'; j-- {
			slashes++
		}
		i++
		if slashes%2 == 0 {
			return i
		}
	}
	return i
}

// skipValue returns the index after the validated value at i.
func skipValue(d []byte, i int) int {
	if i >= len(d) {
		return i
	}
	switch d[i] {
	case '"':
		return skipString(d, i)
	case '{', '[':
		for depth := 0; i < len(d); {
			switch d[i] {
			case '"':
				i = skipString(d, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return i
	}
	for i < len(d) {
		switch d[i] {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			return i
		}
		i++
	}
	return i
}

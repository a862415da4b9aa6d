package mcp

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"unicode/utf8"
)

// DefaultDepth is the default nesting limit of [Limits].
const DefaultDepth = 256

// Limits bounds one message. The reader bounds its size.
type Limits struct {
	// Depth is the deepest nesting of objects and arrays; zero stands for
	// [DefaultDepth].
	Depth int
	// LoneSurrogates accepts \uD800 to \uDFFF escapes without their other half in
	// string values (never in keys). Servers written in JavaScript or Python produce
	// them when they cut a text in the middle of an emoji.
	LoneSurrogates bool
	// Values bounds the number of values at any depth; zero means no limit. Decoding a
	// value of two bytes takes a hundred bytes.
	Values int
}

// SyntaxError is why bytes are not the strict JSON that [Validate] requires.
type SyntaxError struct {
	Offset int    // byte offset of the error
	What   string // the error, for people
	// TooMany means strict JSON with more values than the limit.
	TooMany bool
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at byte %d", e.What, e.Offset)
}

// Validate checks that data is exactly one JSON value (RFC 8259) in valid UTF-8, that
// no object at any depth has duplicate keys in any spelling, and that it is within the
// limits.
func Validate(data []byte, limits Limits) error {
	s := newScanner(data, limits)
	defer s.release()
	if err := s.document(levelNone); err != nil {
		return err
	}
	switch {
	case s.over != nil:
		return s.over
	case s.soft != nil:
		return s.soft
	}
	return nil
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// scanner validates one document. Errors that leave the structure readable (a duplicate
// key, invalid UTF-8 in a string) are kept in soft, too many values in over. The scan
// continues after them, so that the id of a refused message can still be echoed.
type scanner struct {
	data  []byte
	depth int
	lone  bool
	soft  *SyntaxError

	most   int // values; 0 for no limit
	values int
	over   *SyntaxError // too many values; no keys are kept from then on

	keys    []scannedKey // of all open objects, innermost last
	slots   []int32      // hash tables of the open objects with many keys
	scratch []byte       // a key without its escapes
	members []member     // what [Parse] reads, see level
	variant bool         // there was a protocol key in another case
	uris    bool         // there was a key under which a URI may stand
}

// keptKeys bounds the scratch memory that a scanner returns to its pool.
const keptKeys = 1 << 12

func newScanner(data []byte, limits Limits) *scanner {
	s := scanners.Get().(*scanner)
	s.data, s.depth, s.lone, s.soft = data, limits.Depth, limits.LoneSurrogates, nil
	if s.depth <= 0 {
		s.depth = DefaultDepth
	}
	s.most, s.values, s.over = limits.Values, 0, nil
	s.keys, s.slots, s.members, s.variant, s.uris = s.keys[:0], s.slots[:0], s.members[:0], false, false
	return s
}

func (s *scanner) release() {
	s.data, s.soft, s.over = nil, nil, nil
	if cap(s.keys) > keptKeys || cap(s.slots) > keptKeys || cap(s.scratch) > keptKeys {
		return
	}
	scanners.Put(s)
}

func (s *scanner) fault(at int, what string) error {
	return &SyntaxError{Offset: at, What: what}
}

func (s *scanner) note(at int, what string) {
	if s.soft == nil {
		s.soft = &SyntaxError{Offset: at, What: what}
	}
}

// document scans one value and refuses anything after it.
func (s *scanner) document(lvl level) error {
	if len(s.data) > math.MaxInt32 {
		return s.fault(math.MaxInt32, "message of more than 2 GiB")
	}
	i, err := s.value(skipSpace(s.data, 0), s.depth, lvl)
	if err != nil {
		return err
	}
	if i = skipSpace(s.data, i); i != len(s.data) {
		return s.fault(i, "data behind the message")
	}
	return nil
}

// value scans the value that starts at i and returns the index after it. depth is how
// many levels may still open.
func (s *scanner) value(i, depth int, lvl level) (int, error) {
	if i >= len(s.data) {
		return i, s.fault(i, "unexpected end")
	}
	if s.values++; s.values == s.most+1 && s.most > 0 {
		s.over = &SyntaxError{Offset: i, What: fmt.Sprintf("more than %d values", s.most), TooMany: true}
	}
	switch c := s.data[i]; c {
	case '{':
		return s.object(i, depth, lvl)
	case '[':
		return s.array(i, depth)
	case '"':
		i, _, err := s.text(i, s.lone)
		return i, err
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	default:
		return s.number(i)
	}
}

func (s *scanner) object(i, depth int, lvl level) (int, error) {
	if depth <= 0 {
		return i, s.fault(i, "nesting too deep")
	}
	names := keySet{first: len(s.keys), table: len(s.slots)}
	if i = skipSpace(s.data, i+1); i < len(s.data) && s.data[i] == '}' {
		return i + 1, nil
	}
	for {
		if i >= len(s.data) || s.data[i] != '"' {
			return i, s.unexpected(i, "a key")
		}
		start := i
		i2, escaped, err := s.text(i, false)
		if err != nil {
			return i2, err
		}
		i = i2
		key := Span{start + 1, i - 1}
		if s.over == nil {
			s.addKey(&names, key, escaped)
		}

		if i = skipSpace(s.data, i); i >= len(s.data) || s.data[i] != ':' {
			return i, s.unexpected(i, "a colon")
		}
		i = skipSpace(s.data, i+1)
		begin, name, inner := i, "", levelNone
		if lvl != levelNone {
			name, inner = s.protocolKey(lvl, key, escaped)
		}
		if i, err = s.value(i, depth-1, inner); err != nil {
			return i, err
		}
		if name != "" && len(s.members) < mostMembers {
			s.members = append(s.members, member{lvl, name, Span{begin, i}})
		}

		if i = skipSpace(s.data, i); i >= len(s.data) {
			return i, s.fault(i, "unexpected end")
		}
		switch s.data[i] {
		case ',':
			i = skipSpace(s.data, i+1)
		case '}':
			s.dropKeys(names)
			return i + 1, nil
		default:
			return i, s.unexpected(i, "a comma or a closing brace")
		}
	}
}

func (s *scanner) array(i, depth int) (int, error) {
	if depth <= 0 {
		return i, s.fault(i, "nesting too deep")
	}
	if i = skipSpace(s.data, i+1); i < len(s.data) && s.data[i] == ']' {
		return i + 1, nil
	}
	for {
		var err error
		if i, err = s.value(i, depth-1, levelNone); err != nil {
			return i, err
		}
		if i = skipSpace(s.data, i); i >= len(s.data) {
			return i, s.fault(i, "unexpected end")
		}
		switch s.data[i] {
		case ',':
			i = skipSpace(s.data, i+1)
		case ']':
			return i + 1, nil
		default:
			return i, s.unexpected(i, "a comma or a closing bracket")
		}
	}
}

const (
	lsb = 0x0101010101010101
	msb = 0x8080808080808080
)

// special sets the highest bit of the first byte of a word that is not plain ASCII within a
// string: a quote, a backslash, a control character, or a part of a longer character. The
// bits of the bytes above it mean nothing then.
func special(w uint64) uint64 {
	quote, slash := w^(lsb*'"'), w^(lsb*'\\')
	return w | (w - lsb*0x20) | (quote - lsb) | (slash - lsb)
}

// plainWords is plainText on every processor.
func plainWords(b []byte) int {
	i := 0
	for ; i+32 <= len(b); i += 32 {
		b := b[i : i+32 : i+32]
		w, x := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		y, z := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		if (special(w)|special(x)|special(y)|special(z))&msb != 0 {
			break
		}
	}
	return i
}

// longText is after how many bytes a text is scanned by plainText: most texts are shorter, and
// a call would cost more.
const longText = 32

// textPart bounds what one call of plainText scans: it cannot be interrupted, and everybody
// waits for it when the collector begins.
const textPart = 64 << 10

// text scans the string whose opening quote is at i and returns the index after its
// closing quote.
func (s *scanner) text(i int, lone bool) (end int, escaped bool, err error) {
	d := s.data
	start := i
	i++
	for {
		// Eight bytes at a time, and more of them in long texts, while all are plain ASCII.
		for long := i + longText; i+8 <= len(d); {
			if i >= long {
				part := d[i:min(len(d), i+textPart)]
				n := plainText(part)
				i += n
				if n == 0 || n < len(part)&^31 {
					long = len(d)
				}
				continue
			}
			if hit := special(binary.LittleEndian.Uint64(d[i:])) & msb; hit != 0 {
				// A borrow affects only the bytes above the first hit.
				i += bits.TrailingZeros64(hit) / 8
				break
			}
			i += 8
		}
		if i >= len(d) {
			return i, escaped, s.fault(start, "string without an end")
		}
		switch c := d[i]; {
		case c == '"':
			return i + 1, escaped, nil
		case c == '\\':
			escaped = true
			if i, err = s.escape(i, lone); err != nil {
				return i, escaped, err
			}
		case c < 0x20:
			return i, escaped, s.fault(i, "control character in a string")
		case c < utf8.RuneSelf:
			i++
		default:
			for i < len(d) && d[i] >= utf8.RuneSelf {
				// The most common texts inline: two bytes, and three where no second
				// byte is special.
				c := d[i]
				if c >= 0xC2 && c <= 0xDF && i+1 < len(d) && d[i+1]&0xC0 == 0x80 {
					i += 2
					continue
				}
				if c >= 0xE1 && c <= 0xEC && i+2 < len(d) && d[i+1]&d[i+2]&0xC0 == 0x80 && (d[i+1]|d[i+2])&0x40 == 0 {
					i += 3
					continue
				}
				r, size := utf8.DecodeRune(d[i:])
				if r == utf8.RuneError && size == 1 {
					s.note(i, "invalid UTF-8")
				}
				i += size
			}
		}
	}
}

// escape scans the escape sequence at the backslash at i.
func (s *scanner) escape(i int, lone bool) (int, error) {
	d := s.data
	if i+1 >= len(d) {
		return i, s.fault(i, "unexpected end")
	}
	switch d[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
		r, ok := hex4(d, i+2)
		if !ok {
			return i, s.fault(i, "bad escape in a string")
		}
		switch {
		case r >= 0xD800 && r < 0xDC00:
			if i+7 < len(d) && d[i+6] == '\\' && d[i+7] == 'u' {
				if low, ok := hex4(d, i+8); ok && low >= 0xDC00 && low < 0xE000 {
					return i + 12, nil
				}
			}
			if !lone {
				s.note(i, "half of a surrogate pair")
			}
		case r >= 0xDC00 && r < 0xE000 && !lone:
			s.note(i, "half of a surrogate pair")
		}
		return i + 6, nil
	}
	return i, s.fault(i, "bad escape in a string")
}

// number scans a number by the grammar of RFC 8259 section 6.
func (s *scanner) number(i int) (int, error) {
	d := s.data
	start := i
	if i < len(d) && d[i] == '-' {
		i++
	}
	switch {
	case i < len(d) && d[i] == '0':
		i++
	case i < len(d) && d[i] >= '1' && d[i] <= '9':
		i = digits(d, i)
	default:
		return start, s.unexpected(start, "a value")
	}
	if i < len(d) && d[i] == '.' {
		from := i + 1
		if i = digits(d, from); i == from {
			return i, s.unexpected(i, "a digit")
		}
	}
	if i < len(d) && (d[i] == 'e' || d[i] == 'E') {
		i++
		if i < len(d) && (d[i] == '+' || d[i] == '-') {
			i++
		}
		from := i
		if i = digits(d, from); i == from {
			return i, s.unexpected(i, "a digit")
		}
	}
	return i, nil
}

func (s *scanner) literal(i int, word string) (int, error) {
	if len(s.data)-i < len(word) || string(s.data[i:i+len(word)]) != word {
		return i, s.unexpected(i, "a value")
	}
	return i + len(word), nil
}

func (s *scanner) unexpected(i int, want string) error {
	if i >= len(s.data) {
		return s.fault(i, "unexpected end")
	}
	return s.fault(i, "expected "+want)
}

func digits(d []byte, i int) int {
	for i < len(d) && d[i] >= '0' && d[i] <= '9' {
		i++
	}
	return i
}

func skipSpace(d []byte, i int) int {
	for i < len(d) && (d[i] == ' ' || d[i] == '\n' || d[i] == '\r' || d[i] == '\t') {
		i++
	}
	return i
}

// hex4 reads four hexadecimal digits at i.
func hex4(d []byte, i int) (rune, bool) {
	if i+4 > len(d) {
		return 0, false
	}
	var r rune
	for _, c := range d[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

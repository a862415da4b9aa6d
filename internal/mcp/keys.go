package mcp

import (
	"encoding/binary"
	"hash/maphash"
	"unicode/utf8"
)

// scannedKey is a key of an open object, to find it repeated. Offsets fit in 32
// bits because the scanner refuses longer documents: a hostile message may be
// little but keys, and what is kept for each of them is its price in memory.
type scannedKey struct {
	mark       uint32 // equal for equal keys
	start, end int32  // between the quotes
	escaped    bool
}

// keySet is the set of keys of one open object: those from first on, and, once
// they are many, a hash table of their indexes in the slots from table on.
// Objects close in the reverse order of opening, so that both are stacks.
type keySet struct {
	first, table int
}

// manyKeys is the size from which an object's keys are found by hash.
const manyKeys = 24

var keySeed = maphash.MakeSeed()

// addKey adds a key to the object's set, or notes that the object has it
// already. Keys are compared without their escapes.
func (s *scanner) addKey(set *keySet, text Span, escaped bool) {
	plain := s.plain(text, escaped)
	n := len(s.keys) - set.first
	if n == manyKeys && len(s.slots) == set.table {
		s.hashKeys(set)
	}
	key := scannedKey{start: int32(text.Start), end: int32(text.End), escaped: escaped}
	repeated := false
	if n < manyKeys {
		key.mark = shortMark(plain)
		for j := len(s.keys) - 1; j >= set.first && !repeated; j-- {
			repeated = s.keys[j].mark == key.mark && s.sameKey(j, plain)
		}
		s.keys = append(s.keys, key)
	} else {
		if 2*n >= len(s.slots)-set.table {
			s.growTable(set, 4*n)
		}
		key.mark = hashMark(plain)
		s.keys = append(s.keys, key)
		repeated = s.insert(s.slots[set.table:], len(s.keys)-1, plain)
	}
	if repeated {
		// One of each is kept: many equal ones would fill the table at one place.
		s.keys = s.keys[:len(s.keys)-1]
		s.note(text.Start, "key given twice")
	}
}

// hashKeys marks the object's keys for a table.
func (s *scanner) hashKeys(set *keySet) {
	for j := set.first; j < len(s.keys); j++ {
		k := &s.keys[j]
		text := s.data[k.start:k.end]
		if k.escaped {
			text = appendUnescaped(nil, text)
		}
		k.mark = hashMark(text)
	}
}

// growTable makes the object's table anew, for at least size slots.
func (s *scanner) growTable(set *keySet, size int) {
	slots := 1
	for slots < size {
		slots *= 2
	}
	s.slots = append(s.slots[:set.table], make([]int32, slots)...)
	table := s.slots[set.table:]
	for j := set.first; j < len(s.keys); j++ {
		s.insert(table, j, nil)
	}
}

// insert puts the key with index j into a table that has room. With plain, its
// text, it tells whether the table had an equal key before.
func (s *scanner) insert(table []int32, j int, plain []byte) (had bool) {
	last := len(table) - 1 // a power of two less one
	at := int(s.keys[j].mark) & last
	for table[at] != 0 {
		other := int(table[at]) - 1
		if plain != nil && s.keys[other].mark == s.keys[j].mark && s.sameKey(other, plain) {
			return true
		}
		at = (at + 1) & last
	}
	table[at] = int32(j) + 1
	return false
}

// dropKeys forgets the keys of an object that closes.
func (s *scanner) dropKeys(set keySet) {
	s.keys, s.slots = s.keys[:set.first], s.slots[:set.table]
}

// shortMark tells most different keys apart by their length and ends.
func shortMark(key []byte) uint32 {
	n := len(key)
	if n >= 4 {
		return binary.LittleEndian.Uint32(key) ^ binary.LittleEndian.Uint32(key[n-4:])*31 ^ uint32(n)<<24
	}
	mark := uint32(n) << 24
	for i, c := range key {
		mark |= uint32(c) << (8 * i)
	}
	return mark
}

// hashMark is a hash that the sender of the keys cannot foresee.
func hashMark(key []byte) uint32 { return uint32(maphash.Bytes(keySeed, key)) }

func (s *scanner) sameKey(j int, plain []byte) bool {
	k := &s.keys[j]
	text := s.data[k.start:k.end]
	if !k.escaped {
		return string(text) == string(plain)
	}
	return string(appendUnescaped(nil, text)) == string(plain)
}

// plain returns a key without escapes; valid until the next call.
func (s *scanner) plain(text Span, escaped bool) []byte {
	if !escaped {
		return s.data[text.Start:text.End]
	}
	s.scratch = appendUnescaped(s.scratch[:0], s.data[text.Start:text.End])
	return s.scratch
}

// level names the objects whose protocol keys are recorded: the envelope,
// params, result and error inside it, and their _meta.
type level uint8

const (
	levelNone level = iota
	levelEnvelope
	levelParams
	levelResult
	levelError
	levelParamsMeta
	levelResultMeta
	levels
)

// member is one recorded member of an object.
type member struct {
	level level
	name  string
	value Span
}

// mostMembers is more than there are protocol keys: a message reaches it only
// by repeating them, and is refused for that.
const mostMembers = 128

// protocolKey returns the name of the key when the protocol reads it at this
// level, "" when it does not, and the level inside its value. It notes a key
// that differs from a protocol key only by case folding: a reader that ignores
// case would take it for the protocol's own.
func (s *scanner) protocolKey(lvl level, text Span, escaped bool) (name string, inner level) {
	plain := s.plain(text, escaped)
	name = protocolKeys[lvl].name(plain)
	if name == "" {
		var buffer [mostFolded]byte
		folded, whole := foldKey(buffer[:0], plain)
		meta := lvl == levelParamsMeta || lvl == levelResultMeta
		if whole && foldedKeys[lvl].name(folded) != "" ||
			meta && hasPrefix(folded, MetaPrefix) && !hasPrefix(plain, MetaPrefix) {
			s.variant = true
		}
		return "", levelNone
	}
	switch {
	case lvl == levelEnvelope && name == "params":
		return name, levelParams
	case lvl == levelEnvelope && name == "result":
		return name, levelResult
	case lvl == levelEnvelope && name == "error":
		return name, levelError
	case lvl == levelParams && name == "_meta":
		return name, levelParamsMeta
	case lvl == levelResult && name == "_meta":
		return name, levelResultMeta
	}
	return name, levelNone
}

// mostFolded is how much of a key is folded: more than any protocol key has.
const mostFolded = 64

// foldKey appends a key with every letter that case folding takes for an ASCII
// one as that letter in lower case: A to Z, U+017F (long s) and U+212A (Kelvin
// sign). It stops, and whole is false, where no protocol key can follow.
func foldKey(dst, key []byte) (folded []byte, whole bool) {
	for i := 0; i < len(key); {
		if len(dst) == mostFolded {
			return dst, false
		}
		c := key[i]
		if c < utf8.RuneSelf {
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(key[i:])
		switch r {
		case '\u017F':
			dst = append(dst, 's')
		case '\u212A':
			dst = append(dst, 'k')
		default:
			return dst, false
		}
		i += size
	}
	return dst, true
}

func hasPrefix(key []byte, prefix string) bool {
	return len(key) >= len(prefix) && string(key[:len(prefix)]) == prefix
}

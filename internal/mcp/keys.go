package mcp

import (
	"encoding/binary"
	"hash/maphash"
	"unicode/utf8"
)

// scannedKey is a key of an open object, kept to find duplicates. Offsets fit in 32
// bits because the scanner refuses longer documents. A hostile message may consist of
// keys, so each costs little memory.
type scannedKey struct {
	mark       uint32 // equal for equal keys
	start, end int32  // between the quotes
	escaped    bool
}

// keySet is the set of keys of one open object: those from first on and, once they are
// many, a hash table of their indexes in the slots from table on. Objects close in
// reverse order of opening, so both are stacks.
type keySet struct {
	first, table int
}

// manyKeys is the number of keys from which an object gets a hash table.
const manyKeys = 24

var keySeed = maphash.MakeSeed()

// addKey adds a key to the object's set, or notes a duplicate. Keys are compared
// without their escapes.
func (s *scanner) addKey(set *keySet, text Span, escaped bool) {
	plain := s.plain(text, escaped)
	s.uris = s.uris || namesURI(plain)
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
		// Keep one of each: many equal ones would fill one place of the table.
		s.keys = s.keys[:len(s.keys)-1]
		s.note(text.Start, "key given twice")
	}
}

// namesURI reports whether the protocol has URIs of resources under a key, at whatever depth:
// that of a resource, or those of an app's resource in _meta, in the spellings of the extension
// and of its predecessor.
func namesURI(key []byte) bool {
	switch string(key) {
	case "uri", "resourceUri", "ui/resourceUri", "openai/outputTemplate":
		return true
	}
	return false
}

// hashKeys computes the hashes of the object's keys for a table.
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

// growTable rebuilds the object's table for at least size slots.
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

// insert adds the key with index j to a table that has room. If plain, its text, is
// given, it reports whether the table had an equal key.
func (s *scanner) insert(table []int32, j int, plain []byte) (had bool) {
	last := len(table) - 1 // a power of two, minus one
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

// dropKeys drops the keys of an object that closes.
func (s *scanner) dropKeys(set keySet) {
	s.keys, s.slots = s.keys[:set.first], s.slots[:set.table]
}

// shortMark distinguishes most keys by their length and ends.
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

// hashMark is a hash that the sender of the keys cannot predict.
func hashMark(key []byte) uint32 { return uint32(maphash.Bytes(keySeed, key)) }

func (s *scanner) sameKey(j int, plain []byte) bool {
	k := &s.keys[j]
	text := s.data[k.start:k.end]
	if !k.escaped {
		return string(text) == string(plain)
	}
	return string(appendUnescaped(nil, text)) == string(plain)
}

// plain returns a key without escapes, valid until the next call.
func (s *scanner) plain(text Span, escaped bool) []byte {
	if !escaped {
		return s.data[text.Start:text.End]
	}
	s.scratch = appendUnescaped(s.scratch[:0], s.data[text.Start:text.End])
	return s.scratch
}

// level identifies the objects whose protocol keys are recorded: the envelope, the
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

// mostMembers exceeds the number of protocol keys. Only a message that repeats them
// reaches it, and is refused.
const mostMembers = 128

// protocolKey returns the name of the key if the protocol reads it at this level, else
// "", and the level inside its value. It notes a key that equals a protocol key except
// for its case: a case-insensitive reader would take it for the protocol's own.
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

// mostFolded bounds the folded part of a key. It exceeds all protocol keys.
const mostFolded = 64

// foldKey appends a key in lower case, including every letter that case folding maps to
// an ASCII one: A to Z, U+017F (long s) and U+212A (Kelvin sign). It stops, and whole
// is false, where the key cannot be a protocol key any more.
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

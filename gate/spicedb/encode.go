package spicedb

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxID is the length of the longest object id that SpiceDB takes, in bytes.
const maxID = 1024

const upperHex = "0123456789ABCDEF"

// plain tells whether SpiceDB takes a byte in an object id as it is. The
// equals sign, which it takes too, begins an escape.
func plain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("_/|+-", c) >= 0
}

// allPlain tells whether a text is its own encoded id.
func allPlain(text string) bool {
	for i := range len(text) {
		if !plain(text[i]) {
			return false
		}
	}
	return true
}

// appendEscaped appends part with every byte that SpiceDB does not take, or
// that is in reserved, written as "=" and two upper-case hexadecimal digits.
func appendEscaped(dst []byte, part, reserved string) []byte {
	for i := range len(part) {
		c := part[i]
		if plain(c) && strings.IndexByte(reserved, c) < 0 {
			dst = append(dst, c)
			continue
		}
		dst = append(dst, '=', upperHex[c>>4], upperHex[c&15])
	}
	return dst
}

// bounded returns an encoded id, or a digest of it where it is too long. No
// other id looks like a digest: after an equals sign there is always a
// hexadecimal digit, and here there is an s.
func bounded(id []byte) string {
	if len(id) <= maxID {
		return string(id)
	}
	sum := sha256.Sum256(id)
	return "h=sha256-" + hex.EncodeToString(sum[:])
}

// EncodeID returns the object id for a text: what SpiceDB takes stays, every
// other byte becomes "=" and its two hexadecimal digits ("a.b" is "a=2Eb"), and
// above 1024 bytes it is "h=sha256-" and the SHA-256 of that. No two texts have
// the same id. The id of the empty text is empty, which SpiceDB refuses.
func EncodeID(text string) string { return bounded(appendEscaped(nil, text, "")) }

// normalID is [EncodeID] for what a person wrote: an escape stays as it is, so
// that both "alice@x.io" and "alice=40x=2Eio" name the same object.
func normalID(text string) string {
	var id []byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '=' && (escape(text[i:]) || i == 1 && strings.HasPrefix(text, "h=sha256-")) {
			id = append(id, c)
			continue
		}
		id = appendEscaped(id, text[i:i+1], "")
	}
	return bounded(id)
}

// escape tells whether s begins with one.
func escape(s string) bool {
	return len(s) >= 3 && strings.IndexByte(upperHex, s[1]) >= 0 && strings.IndexByte(upperHex, s[2]) >= 0
}

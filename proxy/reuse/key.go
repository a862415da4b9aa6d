package reuse

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Key identifies calls with the same result. The zero Key identifies none.
type Key [sha256.Size]byte

// KeyMaker makes a [Key] of parts. Two sequences of parts have the same key only if
// they have the same parts in the same order. Only one goroutine may use it.
type KeyMaker struct {
	h    hash.Hash
	size [8]byte
}

// NewKey returns a maker without parts.
func NewKey() *KeyMaker { return &KeyMaker{h: sha256.New()} }

// Add adds a part.
func (m *KeyMaker) Add(part []byte) {
	m.add(len(part))
	m.h.Write(part)
}

// AddString adds a part.
func (m *KeyMaker) AddString(part string) { m.Add([]byte(part)) }

// AddNumber adds a number as a part.
func (m *KeyMaker) AddNumber(n uint64) {
	m.add(8)
	binary.BigEndian.PutUint64(m.size[:], n)
	m.h.Write(m.size[:])
}

func (m *KeyMaker) add(size int) {
	binary.BigEndian.PutUint64(m.size[:], uint64(size)) //nolint:gosec // a length is not negative
	m.h.Write(m.size[:])
}

// Key returns the key of the parts so far.
func (m *KeyMaker) Key() (k Key) {
	m.h.Sum(k[:0])
	return k
}

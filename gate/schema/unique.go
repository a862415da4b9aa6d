package schema

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"math/big"
	"slices"
)

// visitsPerComparison is how often a value can be held against a subschema in the time
// that a comparison of two elements takes: that of numbers takes about a microsecond.
const visitsPerComparison = 32

// fewElements is up to where the library compares each element with all others; more
// are found by a hash.
const fewElements = 20

var uniqueSeed = maphash.MakeSeed()

// comparisons returns how often the library compares two elements of an array that
// have to be unique. It finds equal ones by a hash of all that is written in them, one
// after the other and without saying where each ends: ["a", "b"] and one text with the
// right separator in it have the same, whatever the seed. Nobody sends many such
// elements by chance, and a caller who does would keep it busy by the square of them.
func comparisons(array []any) (sum int) {
	if len(array) <= fewElements {
		return 0
	}
	seen := make(map[uint64]int)
	var h maphash.Hash
	h.SetSeed(uniqueSeed)
	for _, element := range array {
		switch element.(type) {
		case []any, map[string]any:
			h.Reset()
			writeElement(&h, element)
			hash := h.Sum64()
			sum += seen[hash]
			seen[hash]++
		}
	}
	return sum
}

// writeElement writes a value as the library does to find its hash.
func writeElement(h *maphash.Hash, value any) {
	switch value := value.(type) {
	case map[string]any:
		_ = h.WriteByte(0) // a hash takes everything
		for _, key := range slices.Sorted(maps.Keys(value)) {
			writeElement(h, key)
			writeElement(h, value[key])
		}
	case []any:
		_ = h.WriteByte(1)
		for _, element := range value {
			writeElement(h, element)
		}
	case nil:
		_ = h.WriteByte(2)
	case bool:
		_, _ = h.Write([]byte{3, map[bool]byte{true: 1}[value]})
	case string:
		_ = h.WriteByte(4)
		_, _ = h.WriteString(value)
	case json.Number:
		_ = h.WriteByte(5)
		if number, ok := new(big.Rat).SetString(string(value)); ok {
			_, _ = h.Write(number.Num().Bytes())
			_, _ = h.Write(number.Denom().Bytes())
		}
	}
}

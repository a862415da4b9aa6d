package schema

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"math/big"
	"slices"
)

// visitsPerComparison is how many visits cost as much as one comparison of two
// elements. A comparison of numbers takes about a microsecond.
const visitsPerComparison = 32

// fewElements is the largest number of elements that the library compares pairwise; it
// compares longer arrays by a hash.
const fewElements = 20

var uniqueSeed = maphash.MakeSeed()

// comparisons returns how often the library compares two elements of an array with
// unique elements. Its hash concatenates the texts of an element without marking their
// ends: ["a", "b"] and one string with the right separator have the same hash,
// whatever the seed. Nobody sends many such elements by chance. An attacker could
// cause quadratic work with them.
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

// writeElement writes a value to a hash as the library does.
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

package mcp

import "bytes"

// maxMerge bounds the depth of [Merge]: settings of extensions are flat.
const maxMerge = 4

// Merge returns the union of two valid JSON values that declare support: objects with
// the members of both, lists with the elements of both. For other values, or different
// types, the first one wins.
func Merge(a, b []byte) []byte { return merge(a, b, maxMerge) }

func merge(a, b []byte, depth int) []byte {
	switch {
	case depth == 0, bytes.Equal(a, b):
		return a
	case IsObject(a) && IsObject(b):
		for m := range Members(b) {
			name, err := Unquote(m.Key(b))
			if err != nil {
				continue
			}
			value := m.Value.Of(b)
			if own := Lookup(a, name); own != nil {
				value = merge(own, value, depth-1)
			}
			a = SetMember(a, name, value)
		}
	case IsArray(a) && IsArray(b):
		seen := make(map[[32]byte]bool)
		var out []byte
		for _, list := range [][]byte{a, b} {
			for e := range Elements(list) {
				if h := Hash(e.Of(list)); !seen[h] {
					seen[h] = true
					out = append(append(out, ','), e.Of(list)...)
				}
			}
		}
		if out == nil {
			return a
		}
		out[0] = '['
		return append(out, ']')
	}
	return a
}

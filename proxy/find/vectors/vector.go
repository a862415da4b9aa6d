package vectors

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
)

// vector is a direction, with one byte for each dimension. It is immutable.
type vector struct {
	codes []int8
	scale float32  // of the codes, so that the length of the vector is 1
	bits  []uint64 // the signs of the codes
	lot   uint32   // a hash of its text; for samples
}

// maxCode is the code of the largest number of a vector.
const maxCode = 127

// setBits derives the signs from the codes.
func (v *vector) setBits() {
	v.bits = make([]uint64, (len(v.codes)+63)/64)
	for i, c := range v.codes {
		if c > 0 {
			v.bits[i/64] |= 1 << (i % 64)
		}
	}
}

// layout is the first byte of a stored vector. The scale follows, and then the codes.
const layout = 1

// encode returns the stored form.
func (v *vector) encode() []byte {
	out := make([]byte, 5, 5+len(v.codes))
	out[0] = layout
	binary.LittleEndian.PutUint32(out[1:], math.Float32bits(v.scale))
	for _, c := range v.codes {
		out = append(out, byte(c))
	}
	return out
}

// decode is the inverse of encode.
func decode(body []byte) (*vector, error) {
	if len(body) < 6 || len(body) > 5+maxDimensions || body[0] != layout {
		return nil, errors.New("not a vector of this version")
	}
	v := &vector{codes: make([]int8, len(body)-5), scale: math.Float32frombits(binary.LittleEndian.Uint32(body[1:]))}
	if !(v.scale > 0) || v.scale > 1 {
		return nil, errors.New("a vector without a scale")
	}
	for i, c := range body[5:] {
		v.codes[i] = int8(c)
	}
	v.setBits()
	return v, nil
}

// cosine returns the cosine of the angle between two vectors of the same number of
// dimensions. Its error is that of the codes, about 0.001.
func (v *vector) cosine(o *vector) float64 {
	return float64(dot(v.codes, o.codes)) * float64(v.scale) * float64(o.scale)
}

// dot returns the scalar product. 4,096 products of two codes fit into an int32.
func dot(a, b []int8) int32 {
	var s0, s1, s2, s3 int32
	b = b[:len(a)]
	for len(a) >= 8 && len(b) >= 8 {
		s0 += int32(a[0])*int32(b[0]) + int32(a[4])*int32(b[4])
		s1 += int32(a[1])*int32(b[1]) + int32(a[5])*int32(b[5])
		s2 += int32(a[2])*int32(b[2]) + int32(a[6])*int32(b[6])
		s3 += int32(a[3])*int32(b[3]) + int32(a[7])*int32(b[7])
		a, b = a[8:], b[8:]
	}
	for i := range a {
		s0 += int32(a[i]) * int32(b[i])
	}
	return s0 + s1 + s2 + s3
}

// distance returns how many signs differ. The more do, the larger is the angle (Charikar,
// "Similarity estimation techniques from rounding algorithms", 2002).
func distance(a, b []uint64) (n int) {
	b = b[:len(a)]
	for i, x := range a {
		n += bits.OnesCount64(x ^ b[i])
	}
	return n
}

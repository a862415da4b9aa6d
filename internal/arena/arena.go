// Package arena lends memory for large messages. When a call is over, other calls use its
// memory again. So the memory is neither cleared nor collected for each call.
package arena

import (
	"slices"
	"sync"
)

const (
	// Least is the size from which on memory is lent, in bytes. Less is cheap for the
	// collector.
	Least = 16 << 10
	// headroom is how many bytes there are before what is taken, so that it can grow to the
	// front.
	headroom = 1 << 10
)

// sizes are those of blocks, somewhat more than a power of two for what surrounds a message.
// More than the largest is not lent.
var sizes = [...]int{80 << 10, 320 << 10, 1280 << 10, 5 << 20}

// pools hold blocks of each size. The collector empties them.
var pools [len(sizes)]sync.Pool

type block struct {
	bytes []byte
	pool  *sync.Pool
}

// Arena is the memory of one call. Its zero value lends. A nil one does not: what is taken
// from it is for the collector, as is all of an Arena that nobody frees. It is for one
// goroutine at a time.
type Arena struct {
	first block
	more  []block
}

// Take returns n bytes, whatever they hold. Their capacity may be larger.
func (a *Arena) Take(n int) []byte {
	if a == nil || n < Least {
		return make([]byte, n)
	}
	for i, size := range sizes {
		if headroom+n > size {
			continue
		}
		b, ok := pools[i].Get().(*[]byte)
		if !ok {
			fresh := make([]byte, size)
			b = &fresh
		}
		a.add(block{*b, &pools[i]})
		return (*b)[headroom : headroom+n]
	}
	return make([]byte, n)
}

func (a *Arena) add(b block) {
	if a.first.bytes == nil {
		a.first = b
		return
	}
	a.more = append(a.more, b)
}

// Extend returns part with so many more bytes before and after it, if part lies in memory of
// the arena that has them; else nil. It overwrites nothing.
func (a *Arena) Extend(part []byte, before, after int) []byte {
	if a == nil || len(part) == 0 {
		return nil
	}
	if whole := a.first.extend(part, before, after); whole != nil {
		return whole
	}
	for _, b := range a.more {
		if whole := b.extend(part, before, after); whole != nil {
			return whole
		}
	}
	return nil
}

func (b block) extend(part []byte, before, after int) []byte {
	start := len(b.bytes) - cap(part) // where part begins, if it is of this block
	if start < before || start+len(part)+after > len(b.bytes) || &b.bytes[start] != &part[0] {
		return nil
	}
	return b.bytes[start-before : start+len(part)+after]
}

// Lends reports whether memory of the arena is in use.
func (a *Arena) Lends() bool { return a != nil && (a.first.bytes != nil || len(a.more) > 0) }

// Drop gives the memory back that part lies in, if it is of the arena, before the call is
// over. Nothing may refer to it after that.
func (a *Arena) Drop(part []byte) {
	if a == nil || len(part) == 0 {
		return
	}
	if a.first.extend(part, 0, 0) != nil {
		a.first.free()
		a.first = block{}
		return
	}
	for i, b := range a.more {
		if b.extend(part, 0, 0) != nil {
			b.free()
			a.more = slices.Delete(a.more, i, i+1)
			return
		}
	}
}

// Free gives everything back. Nothing may refer to it after that.
func (a *Arena) Free() {
	if a == nil {
		return
	}
	if a.first.bytes != nil {
		a.first.free()
	}
	for _, b := range a.more {
		b.free()
	}
	*a = Arena{}
}

func (b block) free() {
	if poison {
		for i := range b.bytes {
			b.bytes[i] = 0xDB
		}
	}
	b.pool.Put(&b.bytes)
}

package redis

// memo remembers what takes long to make: names at the server. It is not safe for concurrent
// use.
type memo[K comparable, V any] map[K]V

// maxMemo bounds what a memo remembers.
const maxMemo = 16384

// of returns what belongs to k, which is made where it is not remembered.
func (m memo[K, V]) of(k K, create func(K) V) V {
	known, ok := m[k]
	if !ok {
		if len(m) >= maxMemo {
			clear(m)
		}
		known = create(k)
		m[k] = known
	}
	return known
}

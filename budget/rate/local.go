package rate

import (
	"hash/maphash"
	"sync"
	"time"
)

// Token is a call's share of one bucket.
type Token struct {
	Bucket string // name of the limit
	Key    string // whose bucket of that limit
	Rate   Rate
}

const (
	// DefaultKeys is how many buckets a [Local] keeps apart.
	DefaultKeys = 65536
	// spills is how many buckets of one limit those share that do not fit.
	spills = 256
	// looks is how many buckets are looked at to find an empty one, before one is
	// shared.
	looks = 16
)

// Local keeps buckets in the memory of one gateway. It keeps so many of them
// apart, and forgets one only when it is full again, which is as if it had never
// been used. When there are more, new ones share a few: a caller may then wait
// for another's use, but none ever has a second burst. The zero Local refuses
// everything. It is safe for concurrent use.
type Local struct {
	mu     sync.Mutex
	start  time.Time
	seed   maphash.Seed
	most   int
	kept   int // in all limits
	limits map[string]*buckets
}

// buckets are those of one limit.
type buckets struct {
	owed    map[uint64]int64 // until when, in microseconds since the start, by the hash of the key
	spilled [spills]int64    // of those that did not fit
}

// NewLocal returns a Local that keeps so many buckets apart; [DefaultKeys] when
// that is not positive.
func NewLocal(keys int) *Local {
	if keys <= 0 {
		keys = DefaultKeys
	}
	return &Local{start: time.Now(), seed: maphash.MakeSeed(), most: keys, limits: make(map[string]*buckets)}
}

// Take takes all tokens or none. It returns -1, or which of them has the longest
// wait, and how long that is. Two tokens of one call are of two limits.
func (l *Local) Take(tokens ...Token) (refused int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	refused, wait = l.look(tokens)
	if refused >= 0 {
		return refused, wait
	}
	now := l.now()
	for i := range tokens {
		b, key := l.of(tokens[i].Bucket), maphash.String(l.seed, tokens[i].Key)
		then, _ := tokens[i].Rate.next(b.until(key), now)
		l.put(b, key, then, now)
	}
	return -1, 0
}

// Wait is Take without taking.
func (l *Local) Wait(tokens ...Token) (refused int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.look(tokens)
}

// Return gives tokens back that were taken for what did not happen. Those of a
// shared bucket are lost: whose they were is not known any more.
func (l *Local) Return(tokens ...Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range tokens {
		b, key := l.of(tokens[i].Bucket), maphash.String(l.seed, tokens[i].Key)
		if owed, ok := b.owed[key]; ok {
			b.owed[key] = owed - tokens[i].Rate.Interval()
		}
	}
}

// Keep forgets all limits but those that keep is true for.
func (l *Local) Keep(keep func(bucket string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, b := range l.limits {
		if !keep(name) {
			l.kept -= len(b.owed)
			delete(l.limits, name)
		}
	}
}

// Len returns how many buckets are kept apart.
func (l *Local) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept
}

// look is Wait; mu is held.
func (l *Local) look(tokens []Token) (refused int, wait time.Duration) {
	if l.limits == nil {
		return 0, never
	}
	refused = -1
	now := l.now()
	for i := range tokens {
		b := l.of(tokens[i].Bucket)
		key := maphash.String(l.seed, tokens[i].Key)
		before := b.until(key)
		then, w := tokens[i].Rate.next(before, now)
		if w > 0 && then < before { // of a longer window; from now on it flows back
			b.lower(key, then)
		}
		if w > wait {
			refused, wait = i, w
		}
	}
	return refused, wait
}

// now is the time since the start; the clock of the machine may be set without
// changing it.
func (l *Local) now() int64 { return time.Since(l.start).Microseconds() }

// of returns the buckets of a limit; mu is held.
func (l *Local) of(name string) *buckets {
	b := l.limits[name]
	if b == nil {
		b = &buckets{owed: make(map[uint64]int64)}
		l.limits[name] = b
	}
	return b
}

// until returns until when a key owes. One that is not kept owes what those do
// that share its place: it may be one of them.
func (b *buckets) until(key uint64) int64 {
	if owed, ok := b.owed[key]; ok {
		return owed
	}
	return b.spilled[key%spills]
}

// lower lets a key owe until an earlier time.
func (b *buckets) lower(key uint64, then int64) {
	if _, ok := b.owed[key]; ok {
		b.owed[key] = then
		return
	}
	b.spilled[key%spills] = then
}

// put notes until when a key owes; mu is held.
func (l *Local) put(b *buckets, key uint64, then, now int64) {
	if _, ok := b.owed[key]; !ok {
		if l.kept >= l.most && !l.forgetSome(now) {
			b.spilled[key%spills] = then
			return
		}
		l.kept++
	}
	b.owed[key] = then
}

// forgetSome looks at a few buckets, another few each time, forgets those that
// are full and tells whether there was one; mu is held.
func (l *Local) forgetSome(now int64) bool {
	left, forgot := looks, false
	for _, b := range l.limits { // in no order
		for key, owed := range b.owed {
			if left--; left < 0 {
				return forgot
			}
			if owed <= now {
				delete(b.owed, key)
				l.kept--
				forgot = true
			}
		}
	}
	return forgot
}

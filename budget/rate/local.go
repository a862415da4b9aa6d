package rate

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// Token is one use of a bucket.
type Token struct {
	Bucket string // name of the limit
	Key    string // owner of the bucket
	Rate   Rate
}

const (
	// DefaultKeys is how many separate buckets a [Local] keeps by default.
	DefaultKeys = 65536
	// sharedBuckets is how many shared buckets one limit has for keys beyond that.
	sharedBuckets = 256
	// probes is how many buckets are checked for an unused one before a key shares a
	// bucket.
	probes = 16
)

// Local keeps buckets and windows in the memory of one gateway. It keeps a bounded number
// of separate ones, and drops one only when it equals an unused one. Further keys share a
// few: a caller may then wait because of another, but nobody gets a second burst. A limit
// whose kind changes begins a new count. The zero Local refuses everything. It is safe
// for concurrent use.
type Local struct {
	mu      sync.Mutex
	start   time.Time
	seed    maphash.Seed
	most    int
	kept    int // in all limits
	limits  map[string]*buckets
	sliding map[string]*windows
}

// buckets are the buckets of one limit.
type buckets struct {
	owed   map[uint64]int64     // end of the debt by the hash of the key, in microseconds since the start
	shared [sharedBuckets]int64 // debts of the shared buckets
}

// windows are the windows of one limit.
type windows struct {
	of     map[uint64]*window // by the hash of the key
	shared [sharedBuckets]window
}

// NewLocal returns a Local with this many separate buckets; [DefaultKeys] when that is
// not positive.
func NewLocal(keys int) *Local {
	if keys <= 0 {
		keys = DefaultKeys
	}
	return &Local{start: time.Now(), seed: maphash.MakeSeed(), most: keys, limits: make(map[string]*buckets), sliding: make(map[string]*windows)}
}

// Take takes all tokens or none. It returns -1, or the index of the token with the
// longest wait, and that wait. Tokens of one call must be of different limits.
func (l *Local) Take(tokens ...Token) (refused int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	refused, wait = l.look(tokens)
	if refused >= 0 {
		return refused, wait
	}
	now := l.now()
	for i := range tokens {
		if tokens[i].Rate.Kind == Sliding {
			l.window(&tokens[i], now, true).add(tokens[i].Rate, now)
			continue
		}
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

// Return gives back tokens that were not used. Those of a shared bucket are lost,
// because their owner is unknown.
func (l *Local) Return(tokens ...Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range tokens {
		key := maphash.String(l.seed, tokens[i].Key)
		if tokens[i].Rate.Kind == Sliding {
			if w := l.sliding[tokens[i].Bucket]; w != nil && w.of[key] != nil {
				w.of[key].remove()
			}
			continue
		}
		b := l.of(tokens[i].Bucket)
		if owed, ok := b.owed[key]; ok {
			b.owed[key] = owed - tokens[i].Rate.Interval()
		}
	}
}

// Keep drops all limits for which keep returns false.
func (l *Local) Keep(keep func(bucket string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, b := range l.limits {
		if !keep(name) {
			l.kept -= len(b.owed)
			delete(l.limits, name)
		}
	}
	for name, w := range l.sliding {
		if !keep(name) {
			l.kept -= len(w.of)
			delete(l.sliding, name)
		}
	}
}

// Len returns the number of separate buckets.
func (l *Local) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept
}

// look is Wait with mu held.
func (l *Local) look(tokens []Token) (refused int, wait time.Duration) {
	if l.limits == nil {
		return 0, never
	}
	refused = -1
	now := l.now()
	for i := range tokens {
		if tokens[i].Rate.Kind == Sliding {
			if w := l.window(&tokens[i], now, false).wait(tokens[i].Rate, now); w > wait {
				refused, wait = i, w
			}
			continue
		}
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

// now is the time since the start; setting the machine's clock does not change it.
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

// window returns the window of a token, with keep a separate one where there is room;
// mu is held. Without one, the key has the calls of its shared window, which it may have
// made.
func (l *Local) window(t *Token, now int64, keep bool) *window {
	w := l.sliding[t.Bucket]
	if w == nil {
		w = &windows{of: make(map[uint64]*window)}
		l.sliding[t.Bucket] = w
	}
	key := maphash.String(l.seed, t.Key)
	if own := w.of[key]; own != nil {
		return own
	}
	shared := &w.shared[key%sharedBuckets]
	if !keep || l.kept >= l.most && !l.forgetSome(now) {
		return shared
	}
	l.kept++
	own := &window{groups: slices.Clone(shared.groups), first: shared.first, calls: shared.calls}
	w.of[key] = own
	return own
}

// until returns the end of a key's debt. A key without a separate bucket has the debt
// of its shared bucket, which it may have used.
func (b *buckets) until(key uint64) int64 {
	if owed, ok := b.owed[key]; ok {
		return owed
	}
	return b.shared[key%sharedBuckets]
}

// lower reduces the debt of a key.
func (b *buckets) lower(key uint64, then int64) {
	if _, ok := b.owed[key]; ok {
		b.owed[key] = then
		return
	}
	b.shared[key%sharedBuckets] = then
}

// put sets the end of a key's debt; mu is held.
func (l *Local) put(b *buckets, key uint64, then, now int64) {
	if _, ok := b.owed[key]; !ok {
		if l.kept >= l.most && !l.forgetSome(now) {
			b.shared[key%sharedBuckets] = then
			return
		}
		l.kept++
	}
	b.owed[key] = then
}

// forgetSome checks a few buckets and windows, different ones each time, and drops those
// that equal unused ones. It reports whether there was any; mu is held.
func (l *Local) forgetSome(now int64) bool {
	before := l.kept
	l.forgetBuckets(now)
	l.forgetWindows(now)
	return l.kept < before
}

func (l *Local) forgetBuckets(now int64) {
	left := probes
	for _, b := range l.limits { // in random order
		for key, owed := range b.owed {
			if left--; left < 0 {
				return
			}
			if owed <= now {
				delete(b.owed, key)
				l.kept--
			}
		}
	}
}

func (l *Local) forgetWindows(now int64) {
	left := probes
	for _, w := range l.sliding {
		for key, own := range w.of {
			if left--; left < 0 {
				return
			}
			if own.over(now) {
				delete(w.of, key)
				l.kept--
			}
		}
	}
}

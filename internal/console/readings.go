package console

import "sync"

// maxReadings is how many calls somebody reads at a time who sees only their own.
const maxReadings = 2

// readings bounds how many calls one person reads at a time. Each reads the whole audit log, one
// after the other, so that a few people could keep auditors from it. It is safe for concurrent
// use. Its zero value is ready.
type readings struct {
	mu sync.Mutex
	of map[string]int // by person; none is zero
}

// begin counts one more for a person, until end is called. It reports false where they read
// too many.
func (r *readings) begin(who string) (end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[who] >= maxReadings {
		return nil, false
	}
	if r.of == nil {
		r.of = make(map[string]int)
	}
	r.of[who]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.of[who]--; r.of[who] == 0 {
			delete(r.of, who)
		}
	}, true
}

// Package background starts goroutines and waits for their end.
package background

import "sync"

// Group are goroutines that their owner waits for at its end. Unlike with a
// [sync.WaitGroup], something may begin while somebody waits and nothing runs: a reload may
// meet the end of the gateway. Its zero value is ready.
type Group struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when nothing runs any more; nil while nobody waits
}

// Go runs f in the background.
func (b *Group) Go(f func()) {
	b.mu.Lock()
	b.n++
	b.mu.Unlock()
	go func() { // its owner is that of the group; it ends with f
		defer b.done()
		f()
	}()
}

func (b *Group) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// Wait waits until nothing runs.
func (b *Group) Wait() {
	b.mu.Lock()
	if b.n == 0 {
		b.mu.Unlock()
		return
	}
	if b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	<-idle
}

package stream

import (
	"context"
	"sync"
)

// Queue is a queue to the one goroutine that writes to a client. It is
// bounded in messages and in bytes; an empty one takes a message of any size. It
// is safe for concurrent use.
type Queue struct {
	most, mostBytes int

	// ready holds a token while there is something to take, room one while
	// there may be a place: each wakes one waiter, who passes it on.
	ready, room chan struct{}

	mu    sync.Mutex
	queue [][]byte
	bytes int
}

// NewQueue returns a queue of so many messages, and bytes beyond the first.
func NewQueue(most, mostBytes int) *Queue {
	return &Queue{most: most, mostBytes: mostBytes, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Offer appends a message; false where there is no place.
func (m *Queue) Offer(raw []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) > 0 && (len(m.queue) >= m.most || m.bytes+len(raw) > m.mostBytes) {
		return false
	}
	m.queue = append(m.queue, raw)
	m.bytes += len(raw)
	wake(m.ready)
	if len(m.queue) < m.most {
		wake(m.room)
	}
	return true
}

// Put waits for a place. It returns the cause of the context when that ends
// first.
func (m *Queue) Put(ctx context.Context, raw []byte) error {
	for !m.Offer(raw) {
		select {
		case <-m.room:
		case <-ctx.Done():
			wake(m.room) // for whoever else waits
			return context.Cause(ctx)
		}
	}
	return nil
}

// Waiting returns a channel with a token while there is something to take.
func (m *Queue) Waiting() <-chan struct{} { return m.ready }

// Take returns the oldest message, nil when there is none.
func (m *Queue) Take() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 {
		return nil
	}
	raw := m.queue[0]
	m.queue[0] = nil
	if m.queue = m.queue[1:]; len(m.queue) == 0 {
		m.queue = nil
	} else {
		wake(m.ready)
	}
	m.bytes -= len(raw)
	wake(m.room)
	return raw
}

// Empty tells whether nothing waits.
func (m *Queue) Empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue) == 0
}

// wake leaves a token in a channel that holds one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

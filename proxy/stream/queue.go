package stream

import (
	"context"
	"sync"
)

// Queue is the queue of the one goroutine that writes to a client. It is bounded in
// messages and bytes; an empty queue takes a message of any size. It is safe for
// concurrent use.
type Queue struct {
	most, mostBytes int

	// ready holds a token while there is a message, room while there may be space. Each
	// token wakes one waiter, who passes it on.
	ready, room chan struct{}

	mu    sync.Mutex
	queue [][]byte
	bytes int
}

// NewQueue returns a queue for most messages, and mostBytes bytes beyond the first
// message.
func NewQueue(most, mostBytes int) *Queue {
	return &Queue{most: most, mostBytes: mostBytes, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Offer appends a message. It returns false without room.
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

// Put waits for room. It returns the cause of the context when that ends first.
func (m *Queue) Put(ctx context.Context, raw []byte) error {
	for !m.Offer(raw) {
		select {
		case <-m.room:
		case <-ctx.Done():
			wake(m.room) // for the next waiter
			return context.Cause(ctx)
		}
	}
	return nil
}

// Waiting returns a channel that holds a token while there is a message.
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

// Empty reports whether the queue is empty.
func (m *Queue) Empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue) == 0
}

// wake sends to a channel of capacity 1 without blocking.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

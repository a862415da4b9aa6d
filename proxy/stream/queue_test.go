package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A queue never holds more than its limits, except for one message that is larger.
func TestQueueBounds(t *testing.T) {
	m := NewQueue(3, 10)
	offered := func(n int) bool { return m.Offer(bytes.Repeat([]byte("x"), n)) }
	for i, step := range []struct {
		size int
		want bool
	}{{100, true}, {1, false}, {-1, true}, {4, true}, {6, true}, {1, false}, {-1, true}, {2, true}, {2, true}, {0, false}} {
		if step.size < 0 {
			if m.Take() == nil {
				t.Errorf("step %d: nothing to take", i)
			}
			continue
		}
		if got := offered(step.size); got != step.want {
			t.Errorf("step %d: a message of %d bytes: %t", i, step.size, got)
		}
	}
	for !m.Empty() {
		m.Take()
	}
	if m.bytes != 0 || m.Take() != nil {
		t.Errorf("an empty queue counts %d bytes", m.bytes)
	}
}

// All callers that wait for room get it, in any order. Nothing is lost or duplicated,
// and the queued bytes stay within the limits.
func TestQueueKeepsAll(t *testing.T) {
	const writers, each = 16, 50
	m := NewQueue(4, 64)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if err := m.Put(t.Context(), fmt.Appendf(nil, "%d.%d%*s", w, i, (w+i)%60, "")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	seen := make(map[string]bool)
	last := make(map[string]int)
	for len(seen) < writers*each {
		<-m.ready
		m.mu.Lock()
		if len(m.queue) > 4 || len(m.queue) > 1 && m.bytes > 64 {
			t.Errorf("%d messages of %d bytes wait", len(m.queue), m.bytes)
		}
		m.mu.Unlock()
		raw := string(bytes.TrimSpace(m.Take()))
		var w, i int
		if _, err := fmt.Sscanf(raw, "%d.%d", &w, &i); err != nil || seen[raw] {
			t.Fatalf("took %q: %v, seen %t", raw, err, seen[raw])
		}
		seen[raw] = true
		who := fmt.Sprint(w)
		if i < last[who] {
			t.Errorf("%s after number %d", raw, last[who])
		}
		last[who] = i
	}
	all.Wait()
}

// A caller that stops waiting does not take the turn of the next.
func TestQueuePutEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewQueue(1, 10)
		m.Offer([]byte("first"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gone, there := make(chan error, 1), make(chan error, 1)
		go func() { gone <- m.Put(ctx, []byte("gone")) }()
		go func() { there <- m.Put(t.Context(), []byte("there")) }()
		if err := <-gone; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a put without a place: %v", err)
		}
		m.Take()
		if err := <-there; err != nil {
			t.Errorf("the next: %v", err)
		}
		if got := m.Take(); string(got) != "there" {
			t.Errorf("took %q", got)
		}
	})
}

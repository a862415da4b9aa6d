package rate

import (
	"context"
	"sync"
	"time"
)

// pause is how long a failed shared store is not asked.
const pause = time.Second

// health knows whether a shared store answers. It is safe for concurrent use.
type health struct {
	onChange func(up bool, err error) // called when the store fails or recovers; nil for nobody

	mu      sync.Mutex
	down    bool
	retryAt time.Time // when the failed store is asked next
	asking  bool      // a call is asking it
}

// mayAsk reports whether to ask the store: always while it answers, else one call at a
// time after a pause. After it, asked must be called.
func (h *health) mayAsk() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.down {
		return true
	}
	if h.asking || time.Now().Before(h.retryAt) {
		return false
	}
	h.asking = true
	return true
}

// asked records whether the store answered. A cancelled call tells nothing.
func (h *health) asked(ctx context.Context, err error) {
	h.mu.Lock()
	before := h.down
	h.asking = false
	switch {
	case err == nil:
		h.down = false
	case ctx.Err() == nil:
		h.down, h.retryAt = true, time.Now().Add(pause)
	}
	after := h.down
	h.mu.Unlock()
	if before != after && h.onChange != nil {
		h.onChange(!after, err)
	}
}

func (h *health) isDown() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down
}

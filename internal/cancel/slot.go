package cancel

import "context"

// Slot is a context that stands for another one, which may be replaced while nobody uses the slot
// and nothing is derived from it. So what holds a context for good, as an [net/http.Request]
// does, can be used again.
type Slot struct{ context.Context }

// AfterFunc is how [context.AfterFunc], and contexts of the library, watch the context.
func (s *Slot) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(s.Context, f) }

// Inner returns the context that a slot stands for, and any other context itself. Who derives
// from it does not hold the slot.
func Inner(ctx context.Context) context.Context {
	if s, ok := ctx.(*Slot); ok {
		return s.Context
	}
	return ctx
}

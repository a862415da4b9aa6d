package proxy

import (
	"container/heap"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// vigil looks at a request again each time the verdict about its caller ends,
// and ends the request when the answer is another one. It is the context of the
// request.
type vigil struct {
	context.Context

	g      *Gateway
	r      *http.Request
	id     *gate.Identity
	cancel context.CancelCauseFunc

	mu   sync.Mutex // held while it looks
	over bool

	due   time.Time // of the next look; guarded by vigils.mu, as is at
	place int       // among the vigils; negative for none
}

// minLook is the least time between two looks.
const minLook = time.Second

// newVigil begins the vigil of a request whose verdict stands for a while.
func (hf *httpFront) newVigil(r *http.Request, id *gate.Identity, until time.Time) *vigil {
	v := &vigil{g: hf.g, id: id, place: -1}
	v.Context, v.cancel = context.WithCancelCause(r.Context())
	v.r = r.WithContext(v)
	hf.g.vigils.add(v, until)
	return v
}

type vigilKey struct{}

// Value implements [context.Context].
func (v *vigil) Value(key any) any {
	if key == (vigilKey{}) {
		return v
	}
	return v.Context.Value(key)
}

// watched tells whether a request may end because its caller is not let in any
// more.
func watched(ctx context.Context) bool { return ctx.Value(vigilKey{}) != nil }

func (v *vigil) look() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return
	}
	id, until, err := v.g.front.identify(v.r)
	switch {
	case v.Err() != nil:
	case err != nil:
		v.cancel(&grantEnded{err})
	case !sameCaller(id, v.id):
		v.cancel(&grantEnded{errOtherCaller})
	case !until.IsZero():
		next := time.Now().Add(minLook)
		if until.After(next) {
			next = until
		}
		v.g.vigils.add(v, next)
	}
}

// end ends the vigil and waits for a look that is under way, which the context
// ends.
func (v *vigil) end() {
	v.cancel(nil)
	v.mu.Lock()
	v.over = true // no look adds it any more
	v.mu.Unlock()
	v.g.vigils.remove(v)
}

// vigils are those of all open requests, by when they look next. One timer
// serves them: one of each request would be set and stopped by every call, and
// setting one wakes a processor. The zero value has none.
type vigils struct {
	mu    sync.Mutex
	queue vigilQueue
	timer *time.Timer
	fires time.Time // when the timer does; zero while it is not set
}

// add has a vigil look at a time.
func (all *vigils) add(v *vigil, due time.Time) {
	all.mu.Lock()
	defer all.mu.Unlock()
	v.due = due
	heap.Push(&all.queue, v)
	all.set()
}

// remove has a vigil not look again. The timer is left as it is: it mostly
// serves the next one.
func (all *vigils) remove(v *vigil) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if v.place >= 0 {
		heap.Remove(&all.queue, v.place)
	}
}

// set has the timer fire for the first one; mu is held.
func (all *vigils) set() {
	if len(all.queue) == 0 {
		return
	}
	first := all.queue[0].due
	if !all.fires.IsZero() && !first.Before(all.fires) {
		return
	}
	all.fires = first
	if all.timer == nil {
		all.timer = time.AfterFunc(time.Until(first), all.fire) // fires without vigils once, at most
		return
	}
	all.timer.Reset(time.Until(first))
}

// fire lets those look whose time has come, each in a goroutine of its own, which
// ends with its request at the latest.
func (all *vigils) fire() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.fires = time.Time{}
	for now := time.Now(); len(all.queue) > 0 && !all.queue[0].due.After(now); {
		go heap.Pop(&all.queue).(*vigil).look()
	}
	all.set()
}

// vigilQueue implements [heap.Interface].
type vigilQueue []*vigil

// Len implements [heap.Interface].
func (q vigilQueue) Len() int { return len(q) }

// Less implements [heap.Interface].
func (q vigilQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

// Swap implements [heap.Interface].
func (q vigilQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push implements [heap.Interface].
func (q *vigilQueue) Push(x any) {
	v := x.(*vigil)
	v.place = len(*q)
	*q = append(*q, v)
}

// Pop implements [heap.Interface].
func (q *vigilQueue) Pop() any {
	last := len(*q) - 1
	v := (*q)[last]
	(*q)[last], v.place = nil, -1
	*q = (*q)[:last]
	return v
}

package rate

import "time"

// groupsPerWindow is into how many groups the calls of a window are put at least.
const groupsPerWindow = 60

// window counts the calls of a sliding window. Calls that follow each other within a
// sixtieth of the window form a group, which leaves the window as a whole with its last
// call. So no window of that length, wherever it begins, has more calls than the limit;
// a call may be refused up to a sixtieth of the window longer than necessary. The zero
// window has no calls.
type window struct {
	groups []group // oldest first; at most groupsPerWindow and two that begin or end
	first  int64   // time of the first call of the newest group
	calls  int64   // of all groups
	length int64   // of the window when it was used last, in microseconds
}

// group is calls in a sequence.
type group struct {
	last  int64 // time of the last one, in microseconds
	calls int64
}

// wait returns how long one more call has to wait, 0 for not at all.
func (w *window) wait(r Rate, now int64) time.Duration {
	if !r.Valid() {
		return never
	}
	w.leave(r, now)
	over := w.calls + 1 - r.Limit
	for i := 0; over > 0 && i < len(w.groups); i++ {
		if over -= w.groups[i].calls; over <= 0 {
			return time.Duration(w.groups[i].last+r.Window.Microseconds()-now) * time.Microsecond
		}
	}
	return 0
}

// add counts one call.
func (w *window) add(r Rate, now int64) {
	w.leave(r, now)
	w.length = r.Window.Microseconds()
	w.calls++
	if n := len(w.groups); n > 0 && (now-w.first)*groupsPerWindow < r.Window.Microseconds() {
		w.groups[n-1].last = now
		w.groups[n-1].calls++
		return
	}
	w.first = now
	w.groups = append(w.groups, group{last: now, calls: 1})
}

// remove takes the latest call back.
func (w *window) remove() {
	if n := len(w.groups); n > 0 && w.groups[n-1].calls > 1 {
		w.groups[n-1].calls--
		w.calls--
	} else if n > 0 {
		w.groups = w.groups[:n-1]
		w.calls--
		w.first = 0 // the next call begins a group
	}
}

// over reports whether the window has no calls any more.
func (w *window) over(now int64) bool {
	n := len(w.groups)
	return n == 0 || w.groups[n-1].last+w.length <= now
}

// leave drops the groups that have left the window.
func (w *window) leave(r Rate, now int64) {
	gone := 0
	for gone < len(w.groups) && w.groups[gone].last <= now-r.Window.Microseconds() {
		w.calls -= w.groups[gone].calls
		gone++
	}
	if gone > 0 {
		w.groups = append(w.groups[:0], w.groups[gone:]...)
	}
}

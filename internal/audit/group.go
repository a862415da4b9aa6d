package audit

import (
	"runtime"
	"sync"
)

// groups are the entries that are written together: one group is being written, or
// none, and the next one fills meanwhile. [Log.mu] guards them.
type groups struct {
	filling uint64       // the number of the group that is in the buffer
	done    uint64       // groups before this one were written, or could not be
	led     bool         // one of those that wait writes
	waits   [2]sync.Cond // for the groups with even and with odd numbers
}

func (g *groups) init(mu *sync.Mutex) {
	for i := range g.waits {
		g.waits[i].L = mu
	}
}

// await returns when a group is written, synced with it where each has to be, or when
// a log in required mode cannot be written. The first that waits writes for all.
func (l *Log) await(group uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := &l.groups
	for g.done <= group && l.Healthy() == nil {
		if g.led {
			g.waits[group&1].Wait()
			continue
		}
		g.led = true
		l.mu.Unlock()
		runtime.Gosched() // who can run may have a line to add to this write
		l.flush(false)
		l.mu.Lock()
		g.led = false
		g.waits[g.filling&1].Signal() // to write the next group, if somebody waits for it
		return
	}
}

// release gives out back, and tells those whose group has left the buffer. Groups that
// fill and groups that are done take turns, so hardly anybody is woken in vain.
func (l *Log) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out.Unlock()
	g := &l.groups
	for ; g.done < g.filling; g.done++ {
		g.waits[g.done&1].Broadcast()
	}
	if l.Healthy() != nil { // nobody writes what fills: who waits is told so
		g.waits[g.filling&1].Broadcast()
	}
}

package audit

import (
	"runtime"
	"sync"
)

// groups coordinate entries that are written together: at most one group is being
// written while the next one fills. [Log.mu] guards them.
type groups struct {
	filling uint64       // number of the group in the buffer
	done    uint64       // groups before this one were written, or could not be
	writing bool         // a waiting caller is writing
	waits   [2]sync.Cond // for groups with even and with odd numbers
}

func (g *groups) init(mu *sync.Mutex) {
	for i := range g.waits {
		g.waits[i].L = mu
	}
}

// await returns when a group is written, and synced if each line must be, or when a log
// in required mode cannot be written. The first waiting caller writes for all.
func (l *Log) await(group uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := &l.groups
	for g.done <= group && l.Healthy() == nil {
		if g.writing {
			g.waits[group&1].Wait()
			continue
		}
		g.writing = true
		l.mu.Unlock()
		runtime.Gosched() // other goroutines may add lines to this write
		l.flush(false)
		l.mu.Lock()
		g.writing = false
		g.waits[g.filling&1].Signal() // to write the next group, if a caller waits for it
		return
	}
}

// release releases out and wakes the callers whose group has left the buffer. Even and
// odd groups alternate, so that few are woken in vain.
func (l *Log) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out.Unlock()
	g := &l.groups
	for ; g.done < g.filling; g.done++ {
		g.waits[g.done&1].Broadcast()
	}
	if l.Healthy() != nil { // nobody will write the filling group: wake its callers too
		g.waits[g.filling&1].Broadcast()
	}
}

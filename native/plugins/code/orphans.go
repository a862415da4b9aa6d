package code

import "sync"

// children are the processes that runs have started.
var children = newFamily()

// family knows which processes are its own. A process that leaves its session and
// outlives who started it becomes a child of this one where the system has no
// namespace that would end it; it is told from a run by not being known.
type family struct {
	mu      sync.Mutex
	changed *sync.Cond
	runs    int          // under way
	known   map[int]bool // their processes
}

func newFamily() *family {
	f := &family{known: make(map[int]bool)}
	f.changed = sync.NewCond(&f.mu)
	return f
}

// begin announces a process that is about to be known.
func (f *family) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs++
}

// add makes a process known.
func (f *family) add(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[pid] = true
	f.changed.Broadcast()
}

// done forgets a process that was waited for.
func (f *family) done(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, pid)
}

// sweep ends a run, and what has come to this process from elsewhere. It waits
// until the processes of the other runs are known, which they are within
// milliseconds.
func (f *family) sweep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs--
	f.changed.Broadcast()
	for len(f.known) != f.runs {
		f.changed.Wait()
	}
	endOrphans(f.known)
}

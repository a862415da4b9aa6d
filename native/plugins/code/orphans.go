package code

import "sync"

// children are the processes of all runs.
var children = newFamily()

// family knows the processes of runs. Without a namespace, a process that leaves its
// session and outlives its parent becomes a child of this process. It is recognised by
// not being in the family.
type family struct {
	mu      sync.Mutex
	changed *sync.Cond
	runs    int          // started and not swept
	known   map[int]bool // their processes
}

func newFamily() *family {
	f := &family{known: make(map[int]bool)}
	f.changed = sync.NewCond(&f.mu)
	return f
}

// begin announces the process of a run.
func (f *family) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs++
}

// add adds the process of a run.
func (f *family) add(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[pid] = true
	f.changed.Broadcast()
}

// done removes a process that was waited for.
func (f *family) done(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, pid)
}

// sweep ends a run and kills orphans that have become children of this process. It
// first waits until the processes of the other runs are known, which takes milliseconds.
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

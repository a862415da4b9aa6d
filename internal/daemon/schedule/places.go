package schedule

import "sync"

// places are those of running calls. A principal takes at most as many as remain free, and
// at most maxOfOne, so that one more principal finds a place however long the calls of
// some others wait.
type places struct {
	mu  sync.Mutex
	of  map[string]int // by principal; those who have none are not in it
	all int
}

// taken tells whether all places are, and which principals get no further one now.
func (p *places) taken() (full bool, by []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for principal, n := range p.of {
		if n >= maxOfOne || n >= maxRunning-p.all {
			by = append(by, principal)
		}
	}
	return p.all >= maxRunning, by
}

func (p *places) take(principal string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[principal]++
	p.all++
}

func (p *places) free(principal string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.of[principal]--; p.of[principal] == 0 {
		delete(p.of, principal)
	}
}

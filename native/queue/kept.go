package queue

import (
	"container/list"
	"time"
)

// kept are the results that callers may still fetch. Their number and size are limited.
// Beyond that, the caller with the most results loses the oldest, so that no caller can
// push out the results of others.
type kept struct {
	ended list.List // of *task, the oldest first
	bytes int
	of    map[string]share // by principal; none is empty
}

// share counts the results of one caller.
type share struct{ results, bytes int }

func (k *kept) change(t *task, by int) {
	s := k.of[t.principal]
	s.results += by
	s.bytes += by * t.size()
	k.bytes += by * t.size()
	if s.results == 0 {
		delete(k.of, t.principal)
		return
	}
	k.of[t.principal] = s
}

// keep adds a task that has ended; mu is held.
func (p *Pool) keep(t *task) {
	p.kept.ended.PushBack(t)
	p.kept.change(t, +1)
}

// trim drops results that are too old or too many; mu is held.
func (p *Pool) trim(now time.Time) {
	k := &p.kept
	for at := k.ended.Front(); at != nil && now.Sub(taskAt(at).updated) >= p.limits.Keep; at = k.ended.Front() {
		p.forget(at)
	}
	for k.ended.Len() > p.limits.Kept || k.bytes > p.limits.KeptBytes {
		p.forget(k.oldestOf(k.greediest(k.bytes > p.limits.KeptBytes)))
	}
}

// forget drops a result; mu is held.
func (p *Pool) forget(at *list.Element) {
	t := taskAt(at)
	p.kept.ended.Remove(at)
	p.kept.change(t, -1)
	delete(p.tasks, t.id)
}

func taskAt(at *list.Element) *task {
	return at.Value.(*task) // nothing else is in it
}

// greediest returns the caller with the most results, by size or by number.
func (k *kept) greediest(bySize bool) string {
	who, most := "", -1
	for principal, s := range k.of {
		n := s.results
		if bySize {
			n = s.bytes
		}
		if n > most || n == most && principal < who {
			who, most = principal, n
		}
	}
	return who
}

// oldestOf returns the oldest result of a caller who has one.
func (k *kept) oldestOf(principal string) *list.Element {
	at := k.ended.Front()
	for taskAt(at).principal != principal {
		at = at.Next()
	}
	return at
}

package gate

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxSelectionClasses bounds the classes of callers that a selection remembers.
const maxSelectionClasses = 64

// Selection is a part of a list that many callers are shown. It remembers for a moment
// which classes of callers may view all of it; see [Part.ViewClass]. It is safe for
// concurrent use.
type Selection struct {
	capabilities []*Capability // never changed

	mu     sync.Mutex
	viewed map[selectionKey]time.Time // until when a class is known to view all of it
}

// selectionKey is a class of callers of one chain at an endpoint.
type selectionKey struct {
	chain          *Chain
	class, capsule string
}

// NewSelection returns a selection of capabilities, which it keeps.
func NewSelection(capabilities []*Capability) *Selection {
	return &Selection{capabilities: capabilities}
}

// ViewedAll reports whether it is known that a caller may view all of a selection. It asks
// no phase.
func (c *Chain) ViewedAll(id *Identity, capsule string, s *Selection) bool {
	key, cacheable := c.selectionKey(id, capsule)
	return cacheable && s.has(key)
}

// LearnViews asks the phases whether a caller may view all of a selection, as [Views] does,
// for [Chain.ViewedAll] to know. It asks none where one says that its decisions are not
// cacheable.
func (c *Chain) LearnViews(ctx context.Context, id *Identity, capsule string, s *Selection) {
	key, cacheable := c.selectionKey(id, capsule)
	if !cacheable {
		return
	}
	until := time.Now().Add(viewTime)
	for some := range slices.Chunk(s.capabilities, batch) {
		made, expires := c.decideAll(ctx, questionsAbout(id, capsule, some))
		if slices.ContainsFunc(made, func(d *Decision) bool { return d.Err != nil || d.Effect != Allow }) {
			return
		}
		if expires.Before(until) {
			until = expires
		}
	}
	// What was decided while the rules changed is not known to be of either.
	if again, ok := c.selectionKey(id, capsule); ok && again == key {
		s.put(key, until)
	}
}

// selectionKey returns the key of a caller. It is not cacheable where a phase says so, and
// where the chain decides nothing for the caller.
func (c *Chain) selectionKey(id *Identity, capsule string) (k selectionKey, cacheable bool) {
	if c == nil || c.cache == nil || !c.decidesFor(id) {
		return selectionKey{}, false
	}
	class, cacheable := c.Class(id)
	return selectionKey{c, class, capsule}, cacheable
}

func (s *Selection) has(k selectionKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.viewed[k])
}

func (s *Selection) put(k selectionKey, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.viewed[k]; !known && len(s.viewed) >= maxSelectionClasses {
		s.makeRoom(time.Now())
	}
	if s.viewed == nil {
		s.viewed = make(map[selectionKey]time.Time)
	}
	s.viewed[k] = until
}

// makeRoom forgets what has expired, or else whichever class comes first; mu is held.
func (s *Selection) makeRoom(now time.Time) {
	for k, until := range s.viewed {
		if !now.Before(until) {
			delete(s.viewed, k)
		}
	}
	for k := range s.viewed {
		if len(s.viewed) < maxSelectionClasses {
			return
		}
		delete(s.viewed, k)
	}
}

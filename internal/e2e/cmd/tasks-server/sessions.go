package main

import (
	"context"
	"crypto/rand"
	"sync"
)

const maxSessions = 1024

// sessions are those of HTTP, by their ids.
type sessions struct {
	ctx   context.Context
	tasks *store
	mu    sync.Mutex
	byID  map[string]*session
}

func newSessions(ctx context.Context, tasks *store) *sessions {
	return &sessions{ctx: ctx, tasks: tasks, byID: map[string]*session{}}
}

// open makes a session. If there are too many, the one that was idle longest
// gives its place; nil if none is.
func (s *sessions) open() *session {
	s.mu.Lock()
	var oldest *session
	if len(s.byID) >= maxSessions {
		for _, sess := range s.byID {
			since, idle := sess.idle()
			if !idle {
				continue
			}
			if oldest != nil {
				if than, _ := oldest.idle(); !since.Before(than) {
					continue
				}
			}
			oldest = sess
		}
		if oldest == nil {
			s.mu.Unlock()
			return nil
		}
	}
	sess := newSession(s.ctx, rand.Text())
	s.byID[sess.id] = sess
	s.mu.Unlock()
	if oldest != nil {
		s.end(oldest)
	}
	return sess
}

func (s *sessions) find(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// end closes a session, what is in flight in it, and its tasks.
func (s *sessions) end(sess *session) {
	s.mu.Lock()
	delete(s.byID, sess.id)
	s.mu.Unlock()
	sess.end()
	s.tasks.forget(sess.id)
}

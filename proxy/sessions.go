package proxy

import (
	"log/slog"
	"sync"
	"time"

	"github.com/toolgate/toolgate/proxy/refusal"
)

// sessionTable holds the open sessions. Clients may leave without ending theirs
// (2025-11-25 basic/transports, Session Management: they SHOULD send DELETE). So an
// idle session makes room for a new one when a limit is reached; only busy sessions can
// fill the table. It is safe for concurrent use.
type sessionTable struct {
	most, each int // sessions in total and of one principal
	log        *slog.Logger
	counted    func(open int) // is called with the number of open sessions, in order
	// working returns the sessions of a principal with running tasks.
	working func(principal string) map[string]bool

	mu     sync.Mutex // locked before the lock of a session
	all    map[string]*Session
	of     map[string]map[*Session]bool // by principal
	warned time.Time                    // when the log last warned of short lives
}

// minIdleLife is how long a session should be idle before it makes room. If it is less,
// active clients are ending each other's sessions.
const minIdleLife = time.Minute

func newSessionTable(g *Gateway) *sessionTable {
	return &sessionTable{
		most: g.opts.Limits.Sessions, each: g.opts.Limits.SessionsPerPrincipal, log: g.log,
		counted: g.opts.Metrics.sessions, working: g.tasks.legacy.sessions,
		all: make(map[string]*Session), of: make(map[string]map[*Session]bool),
	}
}

// add adds a new session, held for its caller. The caller must end out, the session
// that made room; it is nil where there was room. The error is [errSessionThere] or a [*refusal.Error].
func (t *sessionTable) add(s *Session) (out *Session, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.all[s.id] != nil:
		return nil, errSessionThere
	case len(t.of[s.principal]) >= t.each:
		if out = t.idlest(s.principal); out == nil {
			return nil, refusal.TooManySessions(t.each, "of yours", "limits.sessions_per_principal", sessionRetry)
		}
	case len(t.all) >= t.most:
		if out = t.displaced(s.principal); out == nil {
			return nil, refusal.TooManySessions(t.most, "in all", "limits.sessions", sessionRetry)
		}
	}
	if out != nil {
		t.drop(out)
		t.warnShortLife(out)
	}
	t.all[s.id] = s
	if t.of[s.principal] == nil {
		t.of[s.principal] = make(map[*Session]bool)
	}
	t.of[s.principal][s] = true
	s.hold()
	t.counted(len(t.all))
	return out, nil
}

// endIdle ends the sessions that nobody has used for a while.
func (t *sessionTable) endIdle(now time.Time, longest time.Duration) {
	for _, s := range t.list() {
		if since, resting := s.idleSince(); resting && now.Sub(since) > longest {
			s.end(errSessionEnded)
		}
	}
}

// sessionRetry is when a client may try again after it was refused a session.
const sessionRetry = 5 * time.Second

// idlest returns the session of a principal that has been idle for longest, nil where
// all are busy; mu is held.
func (t *sessionTable) idlest(principal string) (found *Session) {
	var oldest time.Time
	var working map[string]bool
	for s := range t.of[principal] {
		since, resting := s.idleSince()
		if !resting || found != nil && !since.Before(oldest) {
			continue
		}
		if working == nil {
			working = t.working(principal)
		}
		if !working[s.id] {
			found, oldest = s, since
		}
	}
	return found
}

// displaced returns the session that makes room for a new one of a principal when the
// table is full: an idle one of its own, else one of the principal with the most
// sessions. A principal never displaces the sessions of another that has no more than
// itself; mu is held.
func (t *sessionTable) displaced(principal string) *Session {
	if own := t.idlest(principal); own != nil {
		return own
	}
	var found *Session
	var oldest time.Time
	most := len(t.of[principal]) + 1
	for other, sessions := range t.of {
		if len(sessions) < most {
			continue
		}
		s := t.idlest(other)
		if s == nil {
			continue
		}
		if since, _ := s.idleSince(); len(sessions) > most || found == nil || since.Before(oldest) {
			found, oldest, most = s, since, len(sessions)
		}
	}
	return found
}

// warnShortLife logs, once a minute, that a session made room soon after its last use;
// mu is held.
func (t *sessionTable) warnShortLife(s *Session) {
	since, _ := s.idleSince()
	now := time.Now()
	if idle := now.Sub(since); idle < minIdleLife && now.Sub(t.warned) >= time.Minute {
		t.warned = now
		t.log.Warn("sessions make room for others soon after their last use; raise limits.sessions_per_principal or limits.sessions",
			"idle", idle.Round(time.Millisecond), "caller", s.principal, "open", len(t.all))
	}
}

// hold finds a session that accepts approves of and holds it, so that it does not make
// room before [Session.release].
func (t *sessionTable) hold(id string, accepts func(*Session) bool) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.all[id]
	if s == nil || !accepts(s) {
		return nil
	}
	s.hold()
	return s
}

// get returns a session, nil when there is none with this id.
func (t *sessionTable) get(id string) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[id]
}

// remove takes a session out. It returns false when it is out already.
func (t *sessionTable) remove(s *Session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[s.id] != s {
		return false
	}
	t.drop(s)
	t.counted(len(t.all))
	return true
}

// drop takes a session out; mu is held.
func (t *sessionTable) drop(s *Session) {
	delete(t.all, s.id)
	delete(t.of[s.principal], s)
	if len(t.of[s.principal]) == 0 {
		delete(t.of, s.principal)
	}
}

// list returns all sessions.
func (t *sessionTable) list() []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*Session, 0, len(t.all))
	for _, s := range t.all {
		all = append(all, s)
	}
	return all
}

// listOf returns the sessions of a principal.
func (t *sessionTable) listOf(principal string) []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*Session, 0, len(t.of[principal]))
	for s := range t.of[principal] {
		all = append(all, s)
	}
	return all
}

// count returns the number of open sessions.
func (t *sessionTable) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"time"

	"github.com/toolgate/toolgate/gate"
)

const (
	// maxSessions bounds the sessions of all browsers. The oldest one ends for a new one.
	maxSessions = 256
	// maxOwnSessions bounds those of one person.
	maxOwnSessions = 16
	// sessionTime is how long a session lasts, idleTime how long it lasts without a request.
	sessionTime = 12 * time.Hour
	idleTime    = 2 * time.Hour
	// maxLinks bounds the links that wait to be opened, linkTime how long they wait.
	maxLinks = 16
	linkTime = time.Minute
	// maxStreams bounds the live views of one session.
	maxStreams = 4
	// maxOwnStreams bounds those of all sessions of one person.
	maxOwnStreams = 16
	// maxAllStreams bounds those of all sessions.
	maxAllStreams = 64
)

// session is one browser that somebody has signed in with.
type session struct {
	id      *gate.Identity // nil for an operator of this machine
	tries   string         // names its calls by hand
	csrf    string
	begun   time.Time
	used    time.Time // guarded by sessions.mu, as streams is
	until   time.Time // of the credential; zero is never
	streams int
	// as is whom calls by hand are made as, and asUntil when that credential ends; nil is
	// whoever has signed in. sessions.mu guards both.
	as      *gate.Identity
	asUntil time.Time
	// under are the settings by which an issuer's word has counted; nil for other sessions.
	under any
}

// hash is what is kept of a secret.
type hash [sha256.Size]byte

// sessions are the sessions and the links of a console. Only hashes of their secrets are
// kept. It is safe for concurrent use.
type sessions struct {
	now func() time.Time

	mu      sync.Mutex
	all     map[hash]*session
	links   map[hash]time.Time // when they end
	streams int
	own     map[string]int // streams by person; none for operators of this machine
}

func newSessions() *sessions {
	return &sessions{now: time.Now, all: make(map[hash]*session), links: make(map[hash]time.Time), own: make(map[string]int)}
}

// link returns the secret of a new link.
func (s *sessions) link() string {
	secret := rand.Text() + rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var first hash
	for h, end := range s.links {
		if !now.Before(end) {
			delete(s.links, h)
			continue
		}
		if _, ok := s.links[first]; !ok || end.Before(s.links[first]) {
			first = h
		}
	}
	if len(s.links) >= maxLinks {
		delete(s.links, first)
	}
	s.links[sha256.Sum256([]byte(secret))] = now.Add(linkTime)
	return secret
}

// open tells whether a link may be opened, which ends it.
func (s *sessions) open(secret string) bool {
	h := hash(sha256.Sum256([]byte(secret)))
	s.mu.Lock()
	defer s.mu.Unlock()
	end, ok := s.links[h]
	delete(s.links, h)
	return ok && s.now().Before(end)
}

// begin returns the secret of a new session.
func (s *sessions) begin(id *gate.Identity, until time.Time) string {
	secret := rand.Text() + rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var oldest, oldestOwn hash
	own := 0
	for h, one := range s.all {
		if s.over(one, now) {
			delete(s.all, h)
			continue
		}
		if first := s.all[oldest]; first == nil || one.used.Before(first.used) {
			oldest = h
		}
		if id == nil || one.id == nil || one.id.Key() != id.Key() {
			continue
		}
		own++
		if first := s.all[oldestOwn]; first == nil || one.used.Before(first.used) {
			oldestOwn = h
		}
	}
	switch {
	case own >= maxOwnSessions: // nobody ends the sessions of others by signing in again and again
		delete(s.all, oldestOwn)
	case len(s.all) >= maxSessions:
		delete(s.all, oldest)
	}
	s.all[sha256.Sum256([]byte(secret))] = &session{id: id, tries: rand.Text(), csrf: rand.Text(), begun: now, used: now, until: until}
	return secret
}

// over tells whether a session has ended.
func (s *sessions) over(one *session, now time.Time) bool {
	return now.Sub(one.begun) >= sessionTime || now.Sub(one.used) >= idleTime || !one.until.IsZero() && !now.Before(one.until)
}

// find returns the session of a secret; nil for none.
func (s *sessions) find(secret string) *session {
	h := hash(sha256.Sum256([]byte(secret)))
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[h]
	if one == nil {
		return nil
	}
	now := s.now()
	if s.over(one, now) {
		delete(s.all, h)
		return nil
	}
	one.used = now
	return one
}

// lasts tells whether a session that was found has not ended since.
func (s *sessions) lasts(one *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over(one, s.now()) {
		return false
	}
	for _, other := range s.all {
		if other == one {
			return true
		}
	}
	return false
}

// end ends the session of a secret.
func (s *sessions) end(secret string) { s.endHash(sha256.Sum256([]byte(secret))) }

// endHash ends a session by the hash of its secret, and returns how its calls by hand are named;
// false for none.
func (s *sessions) endHash(of hash) (tries string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[of]
	if one == nil {
		return "", false
	}
	delete(s.all, of)
	return one.tries, true
}

// beginUnder is begin for somebody by the word of an issuer, which counts under these settings.
func (s *sessions) beginUnder(id *gate.Identity, until time.Time, settings any) string {
	secret := s.begin(id, until)
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.all[sha256.Sum256([]byte(secret))]; one != nil {
		one.under = settings
	}
	return secret
}

// setCaller says as whom calls by hand are made in a session; nil is whoever has signed in.
func (s *sessions) setCaller(one *session, id *gate.Identity, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.as, one.asUntil = id, until
}

// caller returns as whom calls by hand are made in a session; nil is whoever has signed in.
func (s *sessions) caller(one *session) (id *gate.Identity, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !one.asUntil.IsZero() && !s.now().Before(one.asUntil) {
		one.as = nil
	}
	return one.as, one.asUntil
}

// stream takes a place for a live view, and returns what gives it back; nil if there is
// none.
func (s *sessions) stream(one *session) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	person := ""
	if one.id != nil {
		person = one.id.Key()
	}
	if one.streams >= maxStreams || s.streams >= maxAllStreams || person != "" && s.own[person] >= maxOwnStreams {
		return nil
	}
	one.streams++
	s.streams++
	if person != "" {
		s.own[person]++
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		one.streams--
		s.streams--
		if person == "" {
			return
		}
		if s.own[person]--; s.own[person] == 0 {
			delete(s.own, person)
		}
	}
}

// same compares secrets.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

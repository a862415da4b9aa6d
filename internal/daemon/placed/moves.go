package placed

import "time"

// A server is told to move when the gateways have changed. If it stays, because the other place
// does not take it yet, it is told again after firstWait, and then ever more rarely.
const (
	firstWait   = 2 * time.Second
	longestWait = 5 * time.Minute
)

// moves tells when the links of a server are told to move. It outlives them: one that must not
// run twice ends for a move, and its next link may lead to where it was.
type moves struct {
	due    string        // where the server belonged when that was last asked
	again  time.Time     // when its links are told next to move there; zero: when the gateways are read next
	wait   time.Duration // until the time after that
	failed bool          // the gateway there could not start it
}

// aim notes where the server belongs. Another place than before begins anew.
func (m *moves) aim(due string) {
	if due != m.due {
		m.due = due
		m.anew()
	}
}

// anew forgets what was tried.
func (m *moves) anew() { m.again, m.wait, m.failed = time.Time{}, firstWait, false }

// later has the next attempt wait, twice as long as the one before.
func (m *moves) later(now time.Time) {
	m.again, m.wait = now.Add(m.wait), min(2*m.wait, longestWait)
}

package gate

import (
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Key is everything of a request but its arguments. It is comparable: two
// requests have the same key only if they are about the same capability, action
// and endpoint, and of callers of whom the same is known.
type Key struct {
	caller                                                  string // see [Identity.Fingerprint]
	action                                                  Action
	kind                                                    mcp.Kind
	server, original, exposed, plain, capabilityID, capsule string
}

// Key returns the request's key. Its identity is not nil.
func (r *Request) Key() Key {
	return Key{
		caller: r.Identity.Fingerprint(), action: r.Action, kind: r.Kind,
		server: r.Server, original: r.Original, exposed: r.Exposed, plain: r.Plain,
		capabilityID: r.CapabilityID, capsule: r.Capsule,
	}
}

const (
	// cacheTime is how long a decision is used again at most.
	cacheTime = time.Second
	// cacheEntries is how many decisions are cached at least, and half of how many at
	// most.
	cacheEntries = 4096
	// maxStates is how many phases in front of a chain are remembered; those
	// behind it are asked every time.
	maxStates = 6
)

// states are those of the first phases of a chain; what is nil ends them.
type states [maxStates]any

// states returns the states of the phases that have one, up to the first that
// has none.
func (c *Chain) states(r *Request) (of states, n int) {
	for n < len(c.parts) && n < maxStates {
		state := c.parts[n].State
		if state == nil {
			break
		}
		if of[n] = state(r); of[n] == nil {
			break
		}
		n++
	}
	return of, n
}

// cachedDecision is what the first phases of a chain say of a request. It is not
// changed once cached.
type cachedDecision struct {
	states  states
	until   time.Time
	each    []Decision // of each phase in their order, as it is told to a [Listener]
	verdict Decision   // of them together
	ended   bool       // the verdict is final
}

// unasked is what no phase said.
var unasked = &cachedDecision{verdict: undecided()}

// decisionCache holds what phases say. Of two maps the one that is full gives way to
// the other. The zero value is empty. It is safe for concurrent use.
type decisionCache struct {
	mu          sync.RWMutex
	young, aged map[Key]*cachedDecision
}

// get returns what was said of a request under the same rules, nil for nothing.
func (m *decisionCache) get(k Key, of states) *cachedDecision {
	m.mu.RLock()
	s := m.young[k]
	if s == nil {
		s = m.aged[k]
	}
	m.mu.RUnlock()
	if s == nil || s.states != of || !time.Now().Before(s.until) {
		return nil
	}
	return s
}

// put keeps what was said.
func (m *decisionCache) put(k Key, s *cachedDecision) {
	s.until = time.Now().Add(cacheTime)
	s.verdict.Demands = slices.Clip(s.verdict.Demands) // who appends gets a copy
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.young == nil || len(m.young) >= cacheEntries {
		m.aged, m.young = m.young, make(map[Key]*cachedDecision)
	}
	m.young[k] = s
}

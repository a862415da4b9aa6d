package gate

import (
	"slices"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Steady is a [Phase] that can tell when it would say the same again.
type Steady interface {
	// State returns what a decision is made of beside what [Request.Key] has: the
	// rules, as a value that is comparable and differs whenever they
	// do. While it is the same, so is the decision on a request with the same key,
	// whatever its arguments. It is nil where a decision depends on
	// more, such as the arguments or the time, or where making it has to be
	// noticed by somebody.
	State(r *Request) any
}

// Key is everything of a request but its arguments. It is comparable: two
// requests have the same key only if they are about the same capability, action
// and endpoint, and of callers of whom the same is known.
type Key struct {
	caller                                                  string // see [Identity.Fingerprint]
	action                                                  Action
	kind                                                    mcp.Capability
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
	// keptTime is how long a decision is used again at most.
	keptTime = time.Second
	// keptEntries is how many decisions are kept at least, and half of how many at
	// most.
	keptEntries = 4096
	// maxStates is how many phases in front of a chain are remembered; those
	// behind it are asked every time.
	maxStates = 6
)

// states are those of the first phases of a chain; what is nil ends them.
type states [maxStates]any

// states returns the states of the phases that are steady, up to the first that
// is not.
func (c *Chain) states(r *Request) (of states, n int) {
	for n < len(c.phases) && n < maxStates {
		p, ok := c.phases[n].(Steady)
		if !ok {
			break
		}
		if of[n] = p.State(r); of[n] == nil {
			break
		}
		n++
	}
	return of, n
}

// said is what the first phases of a chain said of a request. It is not changed
// once kept.
type said struct {
	states  states
	until   time.Time
	each    []Decision // of each phase in their order, as it is told to a [Listener]
	verdict Decision   // of them together
	ended   bool       // the verdict is final
}

// unasked is what no phase said.
var unasked = &said{verdict: undecided()}

// memory keeps what phases said. Of two maps the one that is full gives way to
// the other. The zero value is empty. It is safe for concurrent use.
type memory struct {
	mu          sync.RWMutex
	young, aged map[Key]*said
}

// get returns what was said of a request under the same rules, nil for nothing.
func (m *memory) get(k Key, of states) *said {
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
func (m *memory) put(k Key, s *said) {
	s.until = time.Now().Add(keptTime)
	s.verdict.Demands = slices.Clip(s.verdict.Demands) // who appends gets a copy
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.young == nil || len(m.young) >= keptEntries {
		m.aged, m.young = m.young, make(map[Key]*said)
	}
	m.young[k] = s
}

package upstream

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/toolgate/toolgate/internal/mcp"
)

// maxExtensions bounds, in bytes, what is kept of the extensions that clients
// declare.
const maxExtensions = 4 << 10

// extensions are those that clients of the gateway have declared. A legacy server
// learns at initialize what its client knows, and may list by it; so what clients
// declare is declared to it from the next time that a connection begins. The zero
// value has none. It is safe for concurrent use.
type extensions struct {
	all  atomic.Pointer[[]byte] // an object, raw; nil while there are none
	last atomic.Pointer[[]byte] // what a client declared last, which most declare again
}

// learn adds the extensions of some client capabilities, raw, and tells whether
// there is another one. Where several people share the server these are the
// protocol's own alone: what one of them declares is told on connections of all.
func (e *extensions) learn(capabilities []byte, official bool) bool {
	declared := mcp.Lookup(capabilities, "extensions")
	if !mcp.IsObject(declared) {
		return false
	}
	if last := e.last.Load(); last != nil && bytes.Equal(*last, declared) {
		return false
	}
	kept := bytes.Clone(declared)
	e.last.Store(&kept)
	for {
		old := e.all.Load()
		next := []byte("{}")
		if old != nil {
			next = *old
		}
		for m := range mcp.Members(kept) {
			name, err := mcp.Unquote(m.Key(kept))
			settings := m.Value.Of(kept)
			if err != nil || name == mcp.ExtensionTasks || !strings.Contains(name, "/") || !mcp.IsObject(settings) ||
				official && !strings.HasPrefix(name, "io.modelcontextprotocol/") {
				continue
			}
			own := mcp.SetMember(nil, name, settings)
			if merged := mcp.Merge(next, own); len(merged) <= maxExtensions {
				next = merged
			}
		}
		if len(next) == len("{}") || old != nil && bytes.Equal(next, *old) {
			return false
		}
		if e.all.CompareAndSwap(old, &next) {
			return true
		}
	}
}

// known returns the extensions, raw; nil when there are none.
func (e *extensions) known() []byte {
	if all := e.all.Load(); all != nil {
		return *all
	}
	return nil
}

// Connected takes the news that a client has connected, with its capabilities, raw.
// A server that nobody has used yet is told of the extensions
// among them at once. It does not block.
func (s *Server) Connected(capabilities []byte) {
	if s.spec.Era == mcp.Modern || !s.extensions.learn(capabilities, s.spec.Local == "") {
		return
	}
	s.mu.Lock()
	main := s.main
	s.mu.Unlock()
	if main != nil && main.era == mcp.Legacy && !main.served.Load() {
		s.lose(main, fmt.Errorf("a client declares extensions that the server was not told of: %w", errSessionLost))
	}
}

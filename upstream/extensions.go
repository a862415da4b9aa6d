package upstream

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

const (
	// maxExtensions bounds, in bytes, what is kept of the extensions that clients
	// declare.
	maxExtensions = 4 << 10
	// maxReinits is how often within retellTime the gateway's own connection may
	// begin anew because of them.
	maxReinits   = 3
	reinitWindow = time.Hour
)

// extensions are those that clients of the gateway have declared. A legacy server
// learns at initialize what its client knows, and may list by it; so what clients
// declare is declared to it from the next time that a connection begins. What was
// declared least recently makes room for more. The zero value has none. It is safe
// for concurrent use.
type extensions struct {
	all  atomic.Pointer[[]byte] // an object, raw; nil while there are none
	last atomic.Pointer[[]byte] // what a client declared last, which most declare again

	mu    sync.Mutex
	kept  []extension // in the order in which they came, so that all stays what it is
	turns uint64      // of learning
}

// extension is one extension with the settings that some client has declared.
type extension struct {
	raw  []byte // an object of it alone
	turn uint64 // in which it was declared last
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
	e.mu.Lock()
	defer e.mu.Unlock()
	e.turns++
	news := false
	for m := range mcp.Members(kept) {
		name, err := mcp.Unquote(m.Key(kept))
		settings := m.Value.Of(kept)
		if err != nil || name == mcp.ExtensionTasks || !strings.Contains(name, "/") || !mcp.IsObject(settings) ||
			official && !strings.HasPrefix(name, "io.modelcontextprotocol/") {
			continue
		}
		if e.keep(mcp.SetMember(nil, name, settings)) {
			news = true
		}
	}
	return news && e.merge()
}

// keep keeps one extension, raw, and tells whether it was not there; mu is held. It
// takes no room of what was declared together with it.
func (e *extensions) keep(raw []byte) bool {
	size := len(raw)
	for i := range e.kept {
		if bytes.Equal(e.kept[i].raw, raw) {
			e.kept[i].turn = e.turns
			return false
		}
		size += len(e.kept[i].raw)
	}
	for size > maxExtensions {
		oldest := -1
		for i := range e.kept {
			if e.kept[i].turn < e.turns && (oldest < 0 || e.kept[i].turn < e.kept[oldest].turn) {
				oldest = i
			}
		}
		if oldest < 0 {
			return false
		}
		size -= len(e.kept[oldest].raw)
		e.kept = append(e.kept[:oldest], e.kept[oldest+1:]...)
	}
	e.kept = append(e.kept, extension{raw, e.turns})
	return true
}

// merge makes one object of what is kept and tells whether it is another than
// before; mu is held.
func (e *extensions) merge() bool {
	next := []byte("{}")
	for i := range e.kept {
		next = mcp.Merge(next, e.kept[i].raw)
	}
	if old := e.all.Load(); old != nil && bytes.Equal(*old, next) {
		return false
	}
	e.all.Store(&next)
	return true
}

// known returns the extensions, raw; nil when there are none.
func (e *extensions) known() []byte {
	if all := e.all.Load(); all != nil {
		return *all
	}
	return nil
}

// reinitLimit bounds how often a connection begins anew. It is safe for concurrent use.
type reinitLimit struct {
	mu    sync.Mutex
	since time.Time
	count int
}

// allow tells whether a connection may begin anew, and counts that it does.
func (r *reinitLimit) allow(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.since) > reinitWindow {
		r.since, r.count = now, 0
	}
	if r.count == maxReinits {
		return false
	}
	r.count++
	return true
}

// Connected takes the news that a client has connected, with its capabilities, raw.
// A server that nobody has used yet is told of the extensions
// among them at once. It does not block.
func (s *Server) Connected(capabilities []byte) {
	if s.spec.Era == mcp.Modern || !s.extensions.learn(capabilities, s.spec.Local == "") {
		return
	}
	s.reinitialize()
}

// reinitialize begins the gateway's own connection anew where its server was told of less
// than it would be now, if nobody has used it yet.
func (s *Server) reinitialize() {
	own, _, _ := s.pool.current()
	if own == nil || own.era != mcp.Legacy || own.link.Cause() != nil || own.usage.Load() != unused ||
		!declaresMore(s.declares(own.key), own.declared) || !s.reinits.allow(time.Now()) || !own.discard() {
		return
	}
	s.pool.lose(own, fmt.Errorf("a client declares extensions that the server was not told of: %w", transport.ErrSessionLost))
}

// declaresMore tells whether client capabilities name extensions, or settings of them, that
// others do not.
func declaresMore(capabilities, others []byte) bool {
	extensions, known := mcp.Lookup(capabilities, "extensions"), mcp.Lookup(others, "extensions")
	return extensions != nil && (known == nil || !bytes.Equal(mcp.Merge(known, extensions), known))
}

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
	// maxExtensions bounds the bytes of extensions that are remembered.
	maxExtensions = 4 << 10
	// maxReinits is how often the own connection may begin again within reinitWindow
	// because of extensions.
	maxReinits   = 3
	reinitWindow = time.Hour
)

// extensions are the extensions that clients of the gateway have declared. A legacy server
// learns them at initialize, and its lists may depend on them. So they are declared to the
// server when the next connection begins. The least recently declared make room for new
// ones. The zero value has none. It is safe for concurrent use.
type extensions struct {
	all  atomic.Pointer[[]byte] // an object, raw; nil while there are none
	last atomic.Pointer[[]byte] // what a client declared last; most declare the same

	mu    sync.Mutex
	kept  []extension // in the order of their arrival, so that all is stable
	turns uint64      // calls of learn
}

// extension is one extension with the settings that a client has declared.
type extension struct {
	raw  []byte // an object with it alone
	turn uint64 // in which it was declared last
}

// learn adds the extensions in raw client capabilities and tells whether the result has
// changed. If several people share the server (official), it takes only extensions of the
// protocol itself: a declaration of one person reaches the connections of all.
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

// keep remembers one raw extension and tells whether it is new; mu is held. It removes
// none that was declared together with it.
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

// merge makes one object of all extensions and tells whether it has changed; mu is held.
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

// reinitLimit bounds how often a connection begins again. It is safe for concurrent use.
type reinitLimit struct {
	mu    sync.Mutex
	since time.Time
	count int
}

// allow tells whether a connection may begin again, and counts that it does.
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

// Connected is told that a client has connected, with its raw capabilities. If nobody has
// used the server yet, it learns of new extensions at once. Connected does not block. It
// does not matter whose client it is, because all principals of a Server share it.
func (s *Server) Connected(_ string, capabilities []byte) {
	if s.spec.Era == mcp.Modern || !s.extensions.learn(capabilities, s.spec.Local == "") {
		return
	}
	s.reinitialize()
}

// reinitialize begins the own connection again if the server would now be told of more
// extensions and nobody has used the connection yet.
func (s *Server) reinitialize() {
	own, _, _ := s.pool.current()
	if own == nil || own.era != mcp.Legacy || own.link.Cause() != nil || own.usage.Load() != unused ||
		!declaresMore(s.declares(own.key), own.declared) || !s.reinits.allow(time.Now()) || !own.discard() {
		return
	}
	s.pool.lose(own, fmt.Errorf("a client declares extensions that the server was not told of: %w", transport.ErrSessionLost))
}

// declaresMore tells whether client capabilities have extensions, or settings of them,
// that others lack.
func declaresMore(capabilities, others []byte) bool {
	extensions, known := mcp.Lookup(capabilities, "extensions"), mcp.Lookup(others, "extensions")
	return extensions != nil && (known == nil || !bytes.Equal(mcp.Merge(known, extensions), known))
}

package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

const (
	// repeatPause between the end of a call and the next ends a row of the same
	// calls: who looks now and then is in no loop.
	repeatPause = 10 * time.Second
	// repeatHold is how long a row that was too long is held, unless another call
	// ends it.
	repeatHold = time.Minute
	// maxRows is how many principals are looked at; of more, those that were
	// quiet for the longest time are forgotten.
	maxRows = 10000
)

// repeats finds callers that make the same call again and again, as a model does
// that is caught in a loop. Only a call that begins when the one before has been
// answered is a repetition: many at once are the work of a program.
type repeats struct {
	mu   sync.Mutex
	rows map[string]*row // by principal
}

// row is the calls of one principal as long as they are the same.
type row struct {
	server, tool string
	hash         [sha256.Size]byte
	count        int
	running      int
	ended        time.Time // when one of them last did
}

// begin notes a call. The returned function is called at its end. A wait means
// that the call is one too many in a row.
func (s *repeats) begin(principal, server, tool string, hash [sha256.Size]byte, most int) (end func(), wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.rows[principal]
	if r == nil || r.server != server || r.tool != tool || r.hash != hash || r.over(now, most) {
		s.makeRoom(now)
		r = &row{server: server, tool: tool, hash: hash, ended: now}
		s.rows[principal] = r
	}
	if r.running == 0 {
		if r.count >= most {
			return nil, repeatHold - now.Sub(r.ended)
		}
		r.count++
	}
	r.running++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.running--
		r.ended = time.Now()
	}, 0
}

// over tells whether the row has ended.
func (r *row) over(now time.Time, most int) bool {
	if r.running > 0 {
		return false
	}
	rest := now.Sub(r.ended)
	return rest >= repeatHold || rest > repeatPause && r.count < most
}

// makeRoom forgets rows that have ended, where there are many; mu is held.
func (s *repeats) makeRoom(now time.Time) {
	if s.rows == nil {
		s.rows = make(map[string]*row)
	}
	if len(s.rows) < maxRows {
		return
	}
	s.forgetQuiet(now)
	for principal, r := range s.rows { // of so many at once, any
		if len(s.rows) < maxRows {
			return
		}
		if r.running == 0 {
			delete(s.rows, principal)
		}
	}
}

// sweep forgets rows that have ended.
func (s *repeats) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetQuiet(now)
}

// forgetQuiet is sweep; mu is held.
func (s *repeats) forgetQuiet(now time.Time) {
	for principal, r := range s.rows {
		if r.running == 0 && now.Sub(r.ended) >= repeatHold {
			delete(s.rows, principal)
		}
	}
}

// repeated holds a tool call against those before it. The hash of its arguments
// is that of its audit entry, made once.
func (g *Gateway) repeated(x *Exchange, r *Route, rec *record) error {
	most := g.config.Load().Floods.IdenticalCalls
	if most <= 0 || x.Message.Method != mcp.MethodToolsCall {
		return nil
	}
	hash := mcp.Hash(x.Message.Param("arguments"))
	rec.entry.ArgsHash = hex.EncodeToString(hash[:])
	end, wait := g.repeats.begin(x.Identity.Key(), r.Server, r.Original, hash, most)
	if end == nil {
		g.opts.Metrics.limited(string(floodIdentical))
		return refusal.Repeated(r.Exposed, most, wait)
	}
	rec.repeatEnd = end
	return nil
}

// look returns how long the call of a principal would have to wait, 0 for not at
// all, and notes nothing.
func (s *repeats) look(principal, server, tool string, hash [sha256.Size]byte, most int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.rows[principal]
	if r == nil || r.server != server || r.tool != tool || r.hash != hash || r.over(now, most) || r.running > 0 || r.count < most {
		return 0
	}
	return repeatHold - now.Sub(r.ended)
}

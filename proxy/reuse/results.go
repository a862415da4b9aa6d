package reuse

import (
	linked "container/list"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Limits bound [Results], in bytes.
type Limits struct {
	Bytes             int // of all results
	BytesPerPrincipal int // of the results of one principal
	BytesPerResult    int // a larger one is not held
}

// overhead stands for the memory of a held result beside its bytes.
const overhead = 256

// Results holds results in memory. Where there is no room, the oldest result of the
// same principal goes first, then the oldest of all. It is safe for concurrent use.
// The zero value holds nothing.
type Results struct {
	limits Limits

	mu       sync.Mutex
	bytes    int
	all      map[Key]*linked.Element // of *held
	order    linked.List             // of *held, oldest in front
	of       map[string]*principalResults
	inFlight map[Key]*InFlight
	changes  map[string]uint64 // by server; see Changed
}

// principalResults are the results of one principal.
type principalResults struct {
	bytes int
	order linked.List // of the elements of [Results], oldest in front
}

// held is a result under its key.
type held struct {
	own       *linked.Element // in the list of the principal
	key       Key
	principal string
	answer    mcp.Answer
	made      time.Time
	expires   time.Time
}

func (h *held) size() int { return len(h.answer.Result) + overhead }

// Found is a result that is reused.
type Found struct {
	Answer mcp.Answer // not to be modified
	Made   time.Time  // when the server answered
}

// New returns empty results.
func New(l Limits) *Results {
	return &Results{limits: l, all: make(map[Key]*linked.Element), of: make(map[string]*principalResults), inFlight: make(map[Key]*InFlight), changes: make(map[string]uint64)}
}

// Find returns the result under a key. ok is false where there is none, or an expired
// one.
func (r *Results) Find(k Key, now time.Time) (found Found, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.find(k, now)
}

// find is Find; mu is held.
func (r *Results) find(k Key, now time.Time) (found Found, ok bool) {
	e := r.all[k]
	if e == nil {
		return Found{}, false
	}
	h := e.Value.(*held)
	if !now.Before(h.expires) {
		r.remove(e)
		return Found{}, false
	}
	return Found{h.answer, h.made}, true
}

// hold adds a result that a server has made just now; mu is held.
func (r *Results) hold(k Key, principal string, answer mcp.Answer, now time.Time, ttl time.Duration) {
	made := &held{key: k, principal: principal, answer: answer, made: now, expires: now.Add(ttl)}
	size := made.size()
	if len(answer.Result) > r.limits.BytesPerResult || size > min(r.limits.Bytes, r.limits.BytesPerPrincipal) {
		return
	}
	if old := r.all[k]; old != nil {
		r.remove(old)
	}
	for of := r.of[principal]; of != nil && of.bytes+size > r.limits.BytesPerPrincipal; {
		r.remove(of.order.Front().Value.(*linked.Element))
	}
	for r.bytes+size > r.limits.Bytes {
		r.remove(r.order.Front())
	}
	of := r.of[principal]
	if of == nil {
		of = &principalResults{}
		r.of[principal] = of
	}
	e := r.order.PushBack(made)
	made.own = of.order.PushBack(e)
	r.all[k] = e
	r.bytes += size
	of.bytes += size
}

// remove takes a result out; mu is held.
func (r *Results) remove(e *linked.Element) {
	h := e.Value.(*held)
	r.order.Remove(e)
	delete(r.all, h.key)
	r.bytes -= h.size()
	of := r.of[h.principal]
	of.order.Remove(h.own)
	if of.bytes -= h.size(); of.order.Len() == 0 {
		delete(r.of, h.principal)
	}
}

// Sweep drops expired results.
func (r *Results) Sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.order.Front(); e != nil; {
		next := e.Next()
		if !now.Before(e.Value.(*held).expires) {
			r.remove(e)
		}
		e = next
	}
}

// Clear drops all results. A call in flight is not reused by calls that begin later.
func (r *Results) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.order.Len() > 0 {
		r.remove(r.order.Front())
	}
	clear(r.inFlight)
}

// Changed notes that a server may answer otherwise from now on. There are as many
// servers as the configuration names.
func (r *Results) Changed(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes[server]++
}

// Changes returns how often [Results.Changed] was called for a server. It belongs into
// the keys of its results.
func (r *Results) Changes(server string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes[server]
}

// Len returns the number of results and their bytes.
func (r *Results) Len() (results, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all), r.bytes
}

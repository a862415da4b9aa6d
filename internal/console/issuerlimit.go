package console

import (
	"sync"
	"time"
)

const (
	// askingTime is the time in which token requests are counted, maxAsking how many are
	// made in it, and maxOwnAsking how many of them for one address.
	askingTime   = time.Minute
	maxAsking    = 120
	maxOwnAsking = 12
)

// issuerLimit bounds the token requests that browsers have the gateway make and that sign
// nobody in. Whoever comes back from an issuer has not signed in yet, so that strangers could
// use the gateway to flood an issuer. It is safe for concurrent use. Its zero value is ready.
type issuerLimit struct {
	mu    sync.Mutex
	until time.Time
	all   int
	own   map[string]int // by address; at most maxAsking
}

// release gives back a request that has signed somebody in: many people may share one address.
func (a *issuerLimit) release(from string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.own[from] > 0 { // the minute that counted it may be over
		a.all--
		a.own[from]--
	}
}

// allow tells whether one more request is made for an address, and counts it.
func (a *issuerLimit) allow(from string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); !now.Before(a.until) {
		a.until, a.all, a.own = now.Add(askingTime), 0, map[string]int{}
	}
	if a.all >= maxAsking || a.own[from] >= maxOwnAsking {
		return false
	}
	a.all++
	a.own[from]++
	return true
}

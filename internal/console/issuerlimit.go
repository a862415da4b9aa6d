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

// issuerLimit bounds the token requests that browsers have the gateway make. Whoever comes back
// from an issuer has not signed in yet, so that strangers could use the gateway to flood an
// issuer. It is safe for concurrent use. Its zero value is ready.
type issuerLimit struct {
	mu    sync.Mutex
	until time.Time
	all   int
	own   map[string]int // by address; at most maxAsking
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

package proxy

import "github.com/toolgate/toolgate/proxy/limit"

// Throttle sets how far the gateway holds back from now on. Calls that run go
// on.
func (g *Gateway) Throttle(t limit.Throttle) {
	g.publisher.mu.Lock() // so that no server is added beside it
	defer g.publisher.mu.Unlock()
	g.throttle.Store(&t)
	for _, s := range g.snapshot.Load().catalog.servers {
		s.slots.Throttle(t)
	}
}

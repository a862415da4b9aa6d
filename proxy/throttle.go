package proxy

// Throttle is how far the gateway holds back, beside what is configured. The
// zero Throttle does not.
type Throttle struct {
	// Halve lets half as many calls run at each server, and at least one.
	Halve bool
	// NoQueue refuses calls that would have to wait for a place at their server,
	// and those that wait.
	NoQueue bool
}

// Throttle sets how far the gateway holds back from now on. Calls that run go
// on.
func (g *Gateway) Throttle(t Throttle) {
	g.building.Lock() // so that no server is added beside it
	defer g.building.Unlock()
	g.throttle.Store(&t)
	for _, s := range g.snapshot.Load().catalog.servers {
		s.slots.throttle(t)
	}
}

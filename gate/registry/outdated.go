package registry

import (
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/store"
)

// Gateways that share a store see the same servers at different moments. The latest
// look is the right one. Where the store has another definition than the server listed
// here, the server is asked again.

const (
	// lookEach is how often a server is asked again because of one definition. It ends
	// endless questions where the answers always differ, as behind a load balancer.
	lookEach = time.Minute
	// lookTime is how long the store's definition is protected while the server is
	// asked again: the server's earlier list is not written over it.
	lookTime = 10 * time.Second
)

// outdated tracks the servers that are asked again. Its owner guards it.
type outdated struct {
	seen    *tables              // compared last
	asked   map[string]time.Time // when, by server and the store's definition
	looking map[string]time.Time // until when, by server
	due     []string             // servers not yet passed on
}

// tellOutdated has the outdated servers asked again.
func (r *Registry) tellOutdated() {
	r.working.Lock()
	due := r.looks.due
	r.looks.due = nil
	r.working.Unlock()
	if len(due) > 0 && r.o.OnOutdated != nil {
		r.o.OnOutdated(due)
	}
}

// compare finds the servers whose list here is older than the store, except those that
// were asked lately.
func (o *outdated) compare(t *tables, offers map[string]*offer, now time.Time) {
	for server, until := range o.looking {
		if !now.Before(until) {
			delete(o.looking, server)
		}
	}
	if o.seen == t {
		return
	}
	o.seen = t
	if o.asked == nil {
		o.asked, o.looking = map[string]time.Time{}, map[string]time.Time{}
	}
	for what, at := range o.asked {
		if now.Sub(at) >= lookEach {
			delete(o.asked, what)
		}
	}
	look := func(server, what string) {
		if what == "" || len(o.asked) >= maxWarned {
			return
		}
		if _, asked := o.asked[server+"\x00"+what]; asked {
			return
		}
		o.asked[server+"\x00"+what] = now
		o.looking[server] = now.Add(lookTime)
		if !slices.Contains(o.due, server) {
			o.due = append(o.due, server)
		}
	}
	here := make(map[key]bool)
	for server, of := range offers {
		for i := range of.items {
			one := &of.items[i]
			here[one.key] = true
			if one.native || one.fault != "" {
				continue
			}
			look(server, news(t.byKey[one.key], one.hash))
		}
	}
	for k, record := range t.byKey {
		of := offers[k.Server]
		if of != nil && of.of.Confirmed && !of.of.Native && !here[k] && record.State != store.StateOrphaned {
			look(k.Server, "there "+record.ID+record.AcceptedHash+record.HeldHash)
		}
	}
	slices.Sort(o.due)
}

// news returns how a record differs from the definition listed here; empty when it
// does not.
func news(r *store.RegistryRecord, listed string) string {
	switch {
	case r == nil:
		return ""
	case r.State == store.StateOrphaned:
		return "gone " + r.ID
	case r.HeldHash != "" && r.HeldHash != listed:
		return "held " + r.HeldHash
	case r.HeldHash == "" && r.AcceptedHash != listed:
		return "accepted " + r.AcceptedHash
	}
	return ""
}

// waits tells whether a server is being asked again.
func (o *outdated) waits(server string, now time.Time) bool { return now.Before(o.looking[server]) }

// listed notes that a server has sent a different list.
func (o *outdated) listed(server string) { delete(o.looking, server) }

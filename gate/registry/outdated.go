package registry

import (
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/store"
)

// Gateways that share a store see the same servers, but not at the same moment: one
// that looks later knows better. Where the store tells of another definition than
// the server has listed here, the server is asked again.

const (
	// lookEach is how often a server is asked again because of one definition: what
	// differs for good, as behind a balancer, is not asked about for ever.
	lookEach = time.Minute
	// lookTime is how long what the server has listed here is not written over what
	// the store has, while it is asked again.
	lookTime = 10 * time.Second
)

// outdated are the servers that are asked again. Its owner guards it.
type outdated struct {
	seen    *tables              // that were compared last
	asked   map[string]time.Time // when, by server and what the store has
	looking map[string]time.Time // until when, by server
	due     []string             // servers, of which nobody was told yet
}

// tellOutdated has servers asked again.
func (r *Registry) tellOutdated() {
	r.working.Lock()
	due := r.looks.due
	r.looks.due = nil
	r.working.Unlock()
	if len(due) > 0 && r.o.OnOutdated != nil {
		r.o.OnOutdated(due)
	}
}

// compare finds the servers that the store knows better than what they have listed
// here, and were not asked about it lately.
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

// news is what a record tells of a definition that is not the one listed here; empty
// for nothing.
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

// listed notes that a server has listed something else.
func (o *outdated) listed(server string) { delete(o.looking, server) }

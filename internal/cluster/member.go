package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// Wire is the version of what members say to one another. Members of another version share
// the database and pass no requests on to this one.
const Wire = 1

// Member is one gateway of those that share a database.
type Member struct {
	ID       string
	Address  string // host:port of its internal listener
	Version  string // of the program
	Wire     int    // see [Wire]
	Draining bool
	Load     // a few seconds ago
	Started  time.Time
}

// Load is what a gateway has to do.
type Load struct {
	Sessions int // open legacy sessions
	Calls    int // in flight
	Runs     int // of agents, that it works on
	Jobs     int // in queues, whose end it waits for
}

// find returns the member with an id.
func find(members []Member, id string) (m Member, ok bool) {
	i := slices.IndexFunc(members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return Member{}, false
	}
	return members[i], true
}

// chosen returns the member with the highest weight for a key (rendezvous hashing; Thaler
// and Ravishankar 1998, "Using name-based mappings to increase hit rates"). Where a member
// leaves, only the keys that were its own move. It returns nil for no members.
func chosen(members []Member, key string) *Member {
	var best *Member
	var most uint64
	for i := range members {
		w := weight(members[i].ID, key)
		if best == nil || cmp.Or(cmp.Compare(w, most), cmp.Compare(best.ID, members[i].ID)) > 0 {
			best, most = &members[i], w
		}
	}
	return best
}

func weight(id, key string) uint64 {
	h := sha256.New()
	h.Write([]byte(id))
	h.Write([]byte{0})
	h.Write([]byte(key))
	return binary.BigEndian.Uint64(h.Sum(nil))
}

package upstream

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// merge computes the union of the lists of all servers; mu is held.
func (p *ServerPool) merge() {
	var signed []*mcp.Listing
	state, reason := mcp.NeedsLogin, "nobody has signed in"
	for _, holder := range slices.Sorted(maps.Keys(p.servers)) {
		l, status := p.servers[holder].Listing()
		if better(status.State, state) {
			state, reason = status.State, status.Reason
		}
		if l != nil && l != signInListing {
			signed = append(signed, l)
		}
	}
	if len(signed) > 0 && state == mcp.Ready {
		reason = fmt.Sprintf("%d callers are signed in", len(signed))
	}
	if p.status.State != state {
		p.status.Since = time.Now()
	}
	p.status.State, p.status.Reason = state, reason
	if next := unionOf(signed, p.union); !sameUnion(p.union, next) {
		p.union = next
	}
}

// unionOf returns the union of listings, with the tool to sign in. before is the last
// union, nil for none. It speaks both eras if one of the listings does, and then it has a
// listing for each era.
func unionOf(all []*mcp.Listing, before *mcp.Listing) *mcp.Listing {
	era, eras, other := mcp.EraUnknown, 0, false
	if l := foremost(all, era); l != nil {
		era = l.Era
	}
	for _, l := range all {
		eras, other = max(eras, l.Eras), other || l.Other != nil
	}
	in := func(era mcp.Era) (own []*mcp.Listing) {
		for _, l := range all {
			own = append(own, l.In(era))
		}
		return own
	}
	union := joined(in(era), era, before)
	union.Eras = eras
	if eras == 2 && other {
		second := mcp.Modern
		if era == mcp.Modern {
			second = mcp.Legacy
		}
		if before != nil {
			before = before.Other
		}
		union.Other = joined(in(second), second, before)
	}
	return union
}

// foremost returns the listing that describes the server in an era; [mcp.EraUnknown] is
// any era. It is the first one of the era that is not stale, else the first of the era,
// else the first; nil if there is none.
func foremost(all []*mcp.Listing, era mcp.Era) *mcp.Listing {
	var best *mcp.Listing
	rank := func(l *mcp.Listing) int {
		switch of := era == mcp.EraUnknown || l.Era == era; {
		case of && !l.Stale:
			return 2
		case of:
			return 1
		}
		return 0
	}
	for _, l := range all {
		if best == nil || rank(l) > rank(best) {
			best = l
		}
	}
	return best
}

type capabilityKey struct {
	kind mcp.Kind
	key  string
}

// joined returns the union of listings of one era. If several list the same name, the
// definition of the last union stays as long as somebody lists it: everybody sees the
// definition that was reviewed.
func joined(all []*mcp.Listing, era mcp.Era, before *mcp.Listing) *mcp.Listing {
	next := *signInListing
	next.Items = map[mcp.Kind][]mcp.Item{mcp.Tool: slices.Clone(signInListing.Items[mcp.Tool])}
	next.Announced = make(map[mcp.Kind]uint64)
	if l := foremost(all, era); l != nil {
		next.Era, next.Version, next.ServerInfo, next.Capabilities, next.Instructions = l.Era, l.Version, l.ServerInfo, l.Capabilities, l.Instructions
		next.TTL, next.FetchedAt, next.Stale = l.TTL, l.FetchedAt, l.Stale
	}
	at := map[capabilityKey]int{}
	for _, l := range all {
		for _, kind := range mcp.Kinds {
			next.Announced[kind] += l.Announced[kind]
			for _, item := range l.Items[kind] {
				k := capabilityKey{kind, item.Key}
				i, there := at[k]
				if !there {
					at[k] = len(next.Items[kind])
					next.Items[kind] = append(next.Items[kind], item)
				} else if old := before.Find(kind, item.Key); old != nil && string(old.Raw) == string(item.Raw) {
					next.Items[kind][i] = item
				}
			}
		}
	}
	return &next
}

// sameUnion tells whether two unions are equal.
func sameUnion(before, next *mcp.Listing) bool {
	if before == nil || next == nil {
		return before == next
	}
	return before.Stale == next.Stale && maps.Equal(before.Announced, next.Announced) &&
		before.Era == next.Era && before.Eras == next.Eras && before.Offers(next) && sameUnion(before.Other, next.Other)
}

// offersSame tells whether two listings offer the same to clients of both eras; nil offers
// nothing.
func offersSame(a, b *mcp.Listing) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Offers(b) && offersSame(a.Other, b.Other)
}

// lists tells whether a server lists something, in any era.
func lists(l *mcp.Listing, kind mcp.Kind, key string) bool {
	return l.Find(kind, key) != nil || l != nil && l.Other.Find(kind, key) != nil
}

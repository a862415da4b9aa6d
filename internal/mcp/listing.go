package mcp

import (
	"bytes"
	"errors"
	"strconv"
	"time"
)

// Item is one listed tool, prompt, resource or template with its verbatim JSON.
type Item struct {
	Key    string        // its name, URI or URI template at the server
	Raw    []byte        // as the server sent it
	Params []ParamHeader // of a tool: arguments mirrored into headers
}

// Listing is everything that one server offers to one credential. It is immutable once
// published.
type Listing struct {
	Era          Era
	Version      Version
	ServerInfo   []byte // raw; nil when unknown
	Capabilities []byte // raw server capabilities; nil when unknown
	Instructions string
	Items        map[Kind][]Item
	// Asks means that the server asks clients by requests of its own while a call is under way,
	// as legacy servers do, although it is a modern one: it is a part of the gateway itself.
	Asks bool
	// TTL is the ttlMs of a modern server, by kind.
	TTL       map[Kind]time.Duration
	FetchedAt time.Time
	// Announced counts the list changes that the server has announced.
	Announced map[Kind]uint64
	// Stale means that the listing is the last good one, which the server has not
	// confirmed since.
	Stale bool
	// Unread are the kinds whose lists could not be read although others could. Their
	// previous lists are used.
	Unread []Kind
	// WithoutCapabilities is what the server offers to clients that it may ask nothing; nil when that
	// is the same or unknown. It has none itself.
	WithoutCapabilities *Listing
	// Eras is how many eras the server is known to speak; 0 for unknown.
	Eras int
	// Other is what a server of both eras offers in the era that is not Era; nil when
	// unknown. It has neither of the two.
	Other *Listing
	// Declared are the raw extensions of clients that the server was or will be told
	// of; nil for none.
	Declared []byte
}

// In returns what the server offers to clients of an era. If the server speaks both and
// its lists in this era are unknown, that is the same, except for what belongs to the
// era itself.
func (l *Listing) In(era Era) *Listing {
	switch {
	case l == nil, l.Eras < 2, l.Era == era, era == EraUnknown:
		return l
	case l.Other != nil:
		return l.Other
	}
	same := *l
	same.Era, same.Version, same.WithoutCapabilities, same.Other = era, LatestLegacy, nil, nil
	if era == Modern {
		same.Version = LatestModern
	}
	return &same
}

// Declares reports whether the server capabilities have a member at the path.
func (l *Listing) Declares(path ...string) bool {
	if l == nil {
		return false
	}
	v := Lookup(l.Capabilities, path...)
	return v != nil && string(v) != "null" && string(v) != "false"
}

// How long lists of legacy servers are fresh.
const (
	announcedFresh = time.Minute      // if the server announces changes
	legacyFresh    = 10 * time.Second // if it does not
)

// Fresh returns how long the list of a kind is fresh after it was read: as a modern
// server says (2026-07-28 server/utilities/caching), or a default for a legacy one. It
// returns false where there is no such list.
func (l *Listing) Fresh(kind Kind) (time.Duration, bool) {
	switch {
	case !l.Declares(kind.Feature()):
		return 0, false
	case l.Era == Modern:
		return l.TTL[kind], true
	case l.Declares(kind.Feature(), "listChanged"):
		return announcedFresh, true
	}
	return legacyFresh, true
}

// Find returns the item of a kind with a key, nil when there is none.
func (l *Listing) Find(kind Kind, key string) *Item {
	if l == nil {
		return nil
	}
	items := l.Items[kind]
	for i := range items {
		if items[i].Key == key {
			return &items[i]
		}
	}
	return nil
}

// ParseItem parses one validated element of a list result. An element without its name
// or URI is an error, and so is a tool whose header annotations violate the
// specification.
func ParseItem(kind Kind, raw []byte) (Item, error) {
	if !IsObject(raw) {
		return Item{}, errors.New("not an object")
	}
	key, ok := LookupString(raw, kind.KeyMember())
	if !ok || key == "" {
		return Item{}, errors.New("without a " + kind.KeyMember())
	}
	item := Item{Key: key, Raw: WithoutGatewayMeta(raw)}
	if kind == Tool {
		var err error
		if item.Params, err = ParamHeaders(Lookup(raw, "inputSchema")); err != nil {
			return Item{}, err
		}
	}
	return item, nil
}

// Encode returns the listing in the form that [DecodeListing] reads. Every item keeps
// its bytes.
func (l *Listing) Encode() []byte {
	size := 256
	for _, items := range l.Items {
		for i := range items {
			size += len(items[i].Raw) + 1
		}
	}
	dst := make([]byte, 0, size)
	dst = append(dst, `{"era":`...)
	dst = strconv.AppendUint(dst, uint64(l.Era), 10)
	dst = append(dst, `,"version":`...)
	dst = AppendQuote(dst, string(l.Version))
	dst = append(dst, `,"fetched_at":`...)
	dst = strconv.AppendInt(dst, l.FetchedAt.UnixMilli(), 10)
	dst = append(dst, `,"instructions":`...)
	dst = AppendQuote(dst, l.Instructions)
	for _, raw := range []struct {
		key   string
		value []byte
	}{{"server_info", l.ServerInfo}, {"capabilities", l.Capabilities}, {"declared", l.Declared}} {
		if raw.value != nil {
			dst = append(AppendQuote(append(dst, ','), raw.key), ':')
			dst = append(dst, raw.value...)
		}
	}
	for _, kind := range Kinds {
		dst = append(AppendQuote(append(dst, ','), kind.String()), `:{"ttl":`...)
		dst = strconv.AppendInt(dst, l.TTL[kind].Milliseconds(), 10)
		dst = append(dst, `,"items":[`...)
		for i := range l.Items[kind] {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, l.Items[kind][i].Raw...)
		}
		dst = append(dst, "]}"...)
	}
	if l.Eras != 0 {
		dst = strconv.AppendInt(append(dst, `,"eras":`...), int64(l.Eras), 10)
	}
	for _, set := range []struct {
		key string
		of  *Listing
	}{{"plain", l.WithoutCapabilities}, {"other", l.Other}} {
		if set.of != nil {
			dst = append(AppendQuote(append(dst, ','), set.key), ':')
			dst = append(dst, set.of.Encode()...)
		}
	}
	return append(dst, '}')
}

// Offers reports whether two listings look the same to a client: the same items in any
// order, capabilities and instructions.
func (l *Listing) Offers(other *Listing) bool {
	if l.Version != other.Version || l.Instructions != other.Instructions || !equalJSON(l.Capabilities, other.Capabilities) {
		return false
	}
	for _, kind := range Kinds {
		own, others := l.Items[kind], other.Items[kind]
		if len(own) != len(others) {
			return false
		}
		byKey := make(map[string][]byte, len(others))
		for i := range others {
			byKey[others[i].Key] = others[i].Raw
		}
		for i := range own {
			if raw, ok := byKey[own[i].Key]; !ok || !equalJSON(own[i].Raw, raw) {
				return false
			}
		}
	}
	return true
}

// equalJSON reports whether two validated values are equal, in any order of members.
func equalJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	return a != nil && b != nil && Hash(a) == Hash(b)
}

// DecodeListing reads the output of [Listing.Encode]. The caller has authenticated the
// bytes, but they are validated too.
func DecodeListing(data []byte) (*Listing, error) {
	if err := Validate(data, Limits{LoneSurrogates: true, Depth: DefaultDepth + 1}); err != nil {
		return nil, err
	}
	l, err := decodeListing(data)
	if plain := Lookup(data, "plain"); err == nil && plain != nil {
		l.WithoutCapabilities, err = decodeListing(plain)
	}
	if other := Lookup(data, "other"); err == nil && other != nil {
		l.Other, err = decodeListing(other)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func decodeListing(data []byte) (*Listing, error) {
	number := func(path ...string) int64 {
		n, _ := strconv.ParseInt(string(Lookup(data, path...)), 10, 64)
		return n
	}
	l := &Listing{
		Era:          Era(number("era")),
		FetchedAt:    time.UnixMilli(number("fetched_at")),
		ServerInfo:   Lookup(data, "server_info"),
		Capabilities: Lookup(data, "capabilities"),
		Declared:     Lookup(data, "declared"),
		Items:        map[Kind][]Item{},
		TTL:          map[Kind]time.Duration{},
		Eras:         int(number("eras")),
	}
	version, _ := LookupString(data, "version")
	l.Version = Version(version)
	l.Instructions, _ = LookupString(data, "instructions")
	for _, kind := range Kinds {
		list := Lookup(data, kind.String(), "items")
		for e := range Elements(list) {
			item, err := ParseItem(kind, e.Of(list))
			if err != nil {
				return nil, err
			}
			l.Items[kind] = append(l.Items[kind], item)
		}
		if ms := number(kind.String(), "ttl"); ms > 0 {
			l.TTL[kind] = time.Duration(ms) * time.Millisecond
		}
	}
	return l, nil
}

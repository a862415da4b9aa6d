package findview

import (
	"maps"
	"slices"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/find"
)

// Built is the index of one catalog. It is immutable.
type Built[K comparable] struct {
	*find.Index
	of *Catalog[K]

	keys    []K      // in the order of the catalog
	numbers []uint32 // of their items in the index
	// places are where the keys stand, in most of an index before that has other keys there
	// for newer definitions. newer are those that came after.
	places, newer map[K]uint32

	byName map[named]uint32
	alike  bool // some items have the same name
}

// named is what an item is found by where its definition is another than in the index.
type named struct {
	kind mcp.Kind
	name string
}

// build makes the index of a catalog. Items of several clients that are equal are one,
// and what is equal in the index before is reused.
func build[K comparable](c *Catalog[K], before *Built[K]) *Built[K] {
	if b := before.changed(c); b != nil {
		return b
	}
	size := 0 // about
	var previous *find.Index
	known := map[K]uint32{}
	if before != nil {
		size = before.Len()
		if !before.Wasteful() {
			previous, known = before.Index, before.byKey()
		}
	}
	b := &Built[K]{of: c, places: make(map[K]uint32, size), byName: make(map[named]uint32, size)}
	items := make([]find.Item, 0, size)
	equal := make(map[string]uint32, size) // by hash
	for key, read := range c.Items {
		var item find.Item
		if i, ok := known[key]; ok {
			item = previous.Known(int(i))
		} else {
			item = read()
		}
		i, seen := equal[item.Hash]
		if !seen {
			i = uint32(len(items))
			items, equal[item.Hash] = append(items, item), i
			of := named{item.Kind, item.Name}
			if _, taken := b.byName[of]; taken {
				b.alike = true
			} else {
				b.byName[of] = i
			}
		}
		b.places[key] = uint32(len(b.keys))
		b.keys, b.numbers = append(b.keys, key), append(b.numbers, i)
	}
	b.Index = find.BuildFrom(items, b.items, c.Servers, previous)
	return b
}

// changed returns the index of a catalog that has other definitions of some items of this
// one, and the same items otherwise. It is nil where more is new: then all is put together
// again.
func (b *Built[K]) changed(c *Catalog[K]) *Built[K] {
	if b == nil || b.alike || !maps.Equal(b.of.Servers, c.Servers) {
		return nil
	}
	next := &Built[K]{of: c, keys: slices.Clone(b.keys), numbers: b.numbers, places: b.places, byName: b.byName}
	changed := make(map[int]find.Item)
	at := 0
	for key, read := range c.Items {
		if at == len(b.keys) {
			return nil
		}
		if b.keys[at] != key {
			i, item := int(b.numbers[at]), read()
			if other, ok := changed[i]; ok && other.Hash != item.Hash || len(changed) > b.Len()/4 {
				return nil
			}
			next.keys[at], changed[i] = key, item
		}
		at++
	}
	if at < len(b.keys) {
		return nil
	}
	if next.Index = b.Index; len(changed) > 0 && !b.replaced(next, changed) {
		return nil
	}
	return next
}

// replaced puts what has changed into the next index. It reports whether that is possible.
func (b *Built[K]) replaced(next *Built[K], changed map[int]find.Item) bool {
	next.newer = maps.Clone(b.newer)
	if next.newer == nil {
		next.newer = make(map[K]uint32)
	}
	for at, i := range b.numbers {
		if _, ok := changed[int(i)]; !ok {
			continue
		}
		if next.keys[at] == b.keys[at] { // some clients are listed the definition before
			return false
		}
		next.newer[next.keys[at]] = uint32(at)
	}
	if len(next.newer) > 64 && len(next.newer) > len(next.places)/8 { // or they would be more and more
		next.places, next.newer = make(map[K]uint32, len(next.keys)), nil
		for at, key := range next.keys {
			next.places[key] = uint32(at)
		}
	}
	next.Index = b.Replace(changed, next.items)
	return next.Index != nil
}

// items yields the items again, each once.
func (b *Built[K]) items(yield func(int, func() find.Item) bool) {
	seen := make([]bool, b.Len())
	at := 0
	for _, read := range b.of.Items {
		i := b.numbers[at]
		at++
		if !seen[i] {
			if seen[i] = true; !yield(int(i), read) {
				return
			}
		}
	}
}

// byKey returns the numbers of the items by their identities.
func (b *Built[K]) byKey() map[K]uint32 {
	all := make(map[K]uint32, len(b.keys))
	for at, key := range b.keys {
		all[key] = b.numbers[at]
	}
	return all
}

// Numbers finds the numbers of items in an index. It is fast for items that come in the
// order of the catalog.
type Numbers[K comparable] struct {
	b    *Built[K]
	next uint32 // where the item after the last one stands
}

// Numbers returns a new Numbers, which is not safe for concurrent use.
func (b *Built[K]) Numbers() Numbers[K] { return Numbers[K]{b: b} }

// Find returns the number of an item: that of its identity, or where its definition is
// newer than the index, that of its name. ok is false for a new name.
func (n *Numbers[K]) Find(key K, kind mcp.Kind, name string) (i int, ok bool) {
	b := n.b
	at := n.next
	if int(at) >= len(b.keys) || b.keys[at] != key {
		if at, ok = b.place(key); !ok {
			i, ok := b.byName[named{kind, name}]
			if ok && int(n.next) < len(b.keys) && b.numbers[n.next] == i {
				n.next++
			}
			return int(i), ok
		}
	}
	n.next = at + 1
	return int(b.numbers[at]), true
}

func (b *Built[K]) place(key K) (at uint32, ok bool) {
	if at, ok = b.newer[key]; !ok {
		at, ok = b.places[key]
	}
	return at, ok
}

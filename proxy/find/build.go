package find

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
)

// The bounds of what is indexed.
const (
	maxServers      = math.MaxUint16
	maxText         = 16 << 10 // bytes of one text
	maxInstructions = 4 << 10  // bytes of the instructions of a server
)

// Build indexes items. servers maps the name of a server to its instructions. previous
// may be nil; otherwise what it knows of unchanged items and servers is reused, and
// searches give the same results as without it. Build does not modify its arguments, and
// the index keeps items, which must not be modified afterwards.
func Build(items []Item, servers map[string]string, previous *Index) *Index {
	return BuildFrom(items, func(yield func(int, func() Item) bool) {
		for i := range items {
			if !yield(i, func() Item { return items[i] }) {
				return
			}
		}
	}, servers, previous)
}

// BuildFrom is [Build] for items that source yields again, so that the index does not keep
// them. An item that previous has, by its hash, may be what [Index.Known] returned of it,
// unless previous is [Index.Wasteful].
func BuildFrom(items []Item, source iter.Seq2[int, func() Item], servers map[string]string, previous *Index) *Index {
	b := &builder{
		x:      &Index{source: source, facts: make([]facts, len(items)), names: make([]string, len(items)), hashes: make([]string, len(items))},
		stems:  map[string]uint32{},
		reused: make([]bool, len(items)),
	}
	if previous != nil && !previous.Wasteful() {
		b.previous = previous
		b.x.words = previous.words.clone()
		b.moved = previous.match(items)
		for old, at := range b.moved {
			if at != none {
				b.reused[at] = true
				b.x.facts[at] = previous.facts[old]
			}
		}
	} else {
		b.x.words = newWords()
	}
	for i := range items {
		b.x.names[i], b.x.hashes[i] = items[i].Name, items[i].Hash
		if !b.reused[i] {
			b.item(uint32(i), &items[i])
		}
	}
	b.serversOf(items, servers)
	b.invert()
	return b.x
}

// Replace returns the index with other definitions of some of its items, by their positions.
// source yields all items again. It returns nil where one of them has another kind, name or
// server than before, or where little of the index is in use: then [BuildFrom] is for it.
// The index and its arguments are not modified.
func (x *Index) Replace(changed map[int]Item, source iter.Seq2[int, func() Item]) *Index {
	for i, it := range changed {
		if it.Kind != x.Kind(i) || it.Name != x.names[i] || it.Server != x.Server(i) {
			return nil
		}
	}
	if x.Wasteful() {
		return nil
	}
	b := &builder{
		x: &Index{
			source: source, facts: slices.Clone(x.facts), names: x.names, hashes: slices.Clone(x.hashes),
			servers: x.servers, serverList: x.serverList, words: x.words.clone(),
		},
		previous: x, moved: make([]uint32, len(x.facts)), stems: map[string]uint32{},
	}
	for i := range b.moved {
		b.moved[i] = uint32(i)
	}
	for _, i := range slices.Sorted(maps.Keys(changed)) {
		it := changed[i]
		b.x.hashes[i], b.moved[i] = it.Hash, none
		b.item(uint32(i), &it)
	}
	b.invert()
	return b.x
}

// Wasteful reports whether most terms are of items that are gone. Nothing of such an index
// is reused.
func (x *Index) Wasteful() bool {
	used := 0
	for t := range len(x.starts) - 1 {
		if x.starts[t] != x.starts[t+1] {
			used++
		}
	}
	return len(x.words.terms) > 1000 && used*2 < len(x.words.terms)
}

// none is the position of an item that is gone.
const none = math.MaxUint32

// match returns, for each item of x, the position in items of an equal one, or none.
func (x *Index) match(items []Item) []uint32 {
	at := make(map[string]uint32, len(items))
	for i := range items {
		if h := items[i].Hash; h != "" {
			at[h] = uint32(i)
		}
	}
	moved := make([]uint32, len(x.hashes))
	for i, h := range x.hashes {
		moved[i] = none
		if j, ok := at[h]; ok {
			moved[i] = j
			delete(at, h) // one of several equal items is enough
		}
	}
	return moved
}

// builder makes an index.
type builder struct {
	x        *Index
	previous *Index   // nil when nothing is reused
	moved    []uint32 // where the items of previous are now, or none
	reused   []bool   // by item
	fresh    []entry  // the terms of the items that are not reused
	stems    map[string]uint32
	seen     []uint32 // for each term, 1 + its position in fresh; older than first is another item's
	first    int      // where the terms of the item being read begin in fresh
	splitter splitter
	lens     [fields]int
}

// entry says that an item has a term.
type entry struct {
	term uint32
	posting
}

// item indexes one item.
func (b *builder) item(i uint32, it *Item) {
	f := &b.x.facts[i]
	f.kind, f.readOnly = it.Kind, it.ReadOnly
	b.first, b.lens = len(b.fresh), [fields]int{}
	local := localName(it.Name, it.Server)
	f.action, f.twins = actionOf(local), hashOf(local)
	b.text(i, fieldName, local)
	if !strings.EqualFold(it.Title, local) {
		b.text(i, fieldTitle, it.Title)
	}
	first, rest := sentence(it.Description)
	b.text(i, fieldFirst, first)
	b.text(i, fieldRest, rest)
	a := arguments{report: func(f field, text string) { b.text(i, f, text) }}
	a.read(it.Schema)
	for n := range fields {
		f.lengths[n] = short(b.lens[n])
	}
}

// text adds the words of a text to an item.
func (b *builder) text(i uint32, f field, text string) {
	if len(text) > maxText {
		text = text[:maxText]
	}
	b.splitter.split(text, func(word []byte) bool {
		b.word(i, f, word)
		if f == fieldName && strings.Contains(text, string(word)) { // not a join of what the case separates
			for _, w := range segments(string(word)) {
				b.word(i, f, []byte(w))
			}
		}
		return true
	})
}

// stopped is the term of a stop word.
const stopped = math.MaxUint32

// word adds a word to an item.
func (b *builder) word(i uint32, f field, word []byte) {
	term := b.term(word, f > fieldTitle)
	if term == stopped {
		return
	}
	b.lens[f]++
	for int(term) >= len(b.seen) {
		b.seen = append(b.seen, make([]uint32, len(b.seen)+1024)...)
	}
	at := int(b.seen[term]) - 1
	if at < b.first {
		at = len(b.fresh)
		b.seen[term] = uint32(at) + 1
		b.fresh = append(b.fresh, entry{term, posting{item: i}})
	}
	b.fresh[at].counts = b.fresh[at].counts.add(f)
}

// term returns the term of a word. Names and titles have their stop words as well.
func (b *builder) term(word []byte, withoutStops bool) uint32 {
	term, ok := b.stems[string(word)]
	if ok && (!withoutStops || term&stopBit == 0) {
		return term &^ stopBit
	}
	if ok || withoutStops && stopWords[string(word)] {
		return stopped
	}
	w := string(word)
	term = b.x.words.add(stem(w))
	if stopWords[w] {
		b.stems[w] = term | stopBit
	} else {
		b.stems[w] = term
	}
	return term
}

// stopBit marks the terms of stop words in the stems of a builder.
const stopBit = 1 << 31

// localName returns a name without the namespace of its server.
func localName(name, server string) string {
	if rest, ok := strings.CutPrefix(name, server+"__"); ok && rest != "" {
		return rest
	}
	if i := strings.Index(name, "__"); i > 0 && i+2 < len(name) {
		return name[i+2:]
	}
	return name
}

// hashOf returns a hash of the words of a name (FNV-1a).
func hashOf(name string) uint32 {
	h := uint32(2166136261)
	var s splitter
	s.split(name, func(word []byte) bool {
		for _, c := range word {
			h = (h ^ uint32(c)) * 16777619
		}
		h = (h ^ ' ') * 16777619
		return true
	})
	return h
}

// sentence cuts a text after its first sentence or line.
func sentence(text string) (first, rest string) {
	const longest = 300
	text = strings.TrimSpace(text)
	for i := 0; i < len(text) && i < longest; i++ {
		switch text[i] {
		case '\n':
			return text[:i], text[i+1:]
		case '.', '!', '?', ';':
			if i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\n') && i > 12 {
				return text[:i+1], text[i+1:]
			}
		}
		if strings.HasPrefix(text[i:], "。") {
			return text[:i], text[i:]
		}
	}
	if len(text) <= longest {
		return text, ""
	}
	if i := strings.LastIndexByte(text[:longest], ' '); i > 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// serversOf indexes the servers of the items.
func (b *builder) serversOf(items []Item, instructions map[string]string) {
	numbers := map[string]uint16{}
	var names []string
	for i := range items {
		if _, ok := numbers[items[i].Server]; !ok && len(names) < maxServers {
			numbers[items[i].Server] = 0
			names = append(names, items[i].Server)
		}
	}
	slices.Sort(names)
	b.x.servers = make([]server, len(names))
	for i, name := range names {
		numbers[name] = uint16(i)
		b.x.servers[i] = b.server(name, instructions[name])
		for _, w := range b.x.servers[i].terms {
			b.x.serverList = append(b.x.serverList, serverTerm{w.term, uint16(i), w.weight})
		}
	}
	slices.SortFunc(b.x.serverList, func(a, b serverTerm) int {
		return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.server, b.server))
	})
	for i := range items {
		b.x.facts[i].server = numbers[items[i].Server]
	}
}

func byTerm(s serverTerm, term uint32) int { return cmp.Compare(s.term, term) }

// server indexes the name and the instructions of a server.
func (b *builder) server(name, instructions string) server {
	if b.previous != nil {
		i, ok := slices.BinarySearchFunc(b.previous.servers, name, func(s server, n string) int { return strings.Compare(s.name, n) })
		if ok && b.previous.servers[i].instructions == instructions {
			return b.previous.servers[i]
		}
	}
	s := server{name: name, instructions: instructions}
	weights := map[uint32]float32{}
	read := func(text string, weight float32) {
		b.splitter.split(text, func(word []byte) bool {
			if w := string(word); !stopWords[w] && !serverNoise[w] {
				weights[b.x.words.add(stem(w))] += weight
				s.length += float64(weight)
			}
			return true
		})
	}
	read(name, serverNameWeight)
	read(instructions[:min(len(instructions), maxInstructions)], 1)
	for t, w := range weights {
		s.terms = append(s.terms, weighted{t, w})
	}
	slices.SortFunc(s.terms, func(a, b weighted) int { return cmp.Compare(a.term, b.term) })
	return s
}

// serverNoise are words of names of servers that say nothing.
var serverNoise = wordSet("mcp server servers tool tools api plugin plugins service app official")

// invert makes the lists of items from what is reused and from the fresh terms.
func (b *builder) invert() {
	x := b.x
	x.starts = make([]uint32, len(x.words.terms)+1)
	b.known(func(t int, list []posting) {
		for _, p := range list {
			if b.moved[p.item] != none {
				x.starts[t+1]++
			}
		}
	})
	for i := range b.fresh {
		x.starts[b.fresh[i].term+1]++
	}
	for t := range len(x.words.terms) {
		x.starts[t+1] += x.starts[t]
	}
	at := slices.Clone(x.starts)
	x.list = make([]posting, x.starts[len(x.words.terms)])
	b.known(func(t int, list []posting) {
		for _, p := range list {
			if p.item = b.moved[p.item]; p.item != none {
				x.list[at[t]] = p
				at[t]++
			}
		}
	})
	for i := range b.fresh {
		t := b.fresh[i].term
		x.list[at[t]] = b.fresh[i].posting
		at[t]++
	}
	x.words.terms, x.words.grams = slices.Clip(x.words.terms), slices.Clip(x.words.grams)
}

// known calls a function with the items of each term of the index before.
func (b *builder) known(use func(term int, list []posting)) {
	if b.previous == nil {
		return
	}
	for t := range len(b.previous.starts) - 1 {
		use(t, b.previous.items(uint32(t)))
	}
}

// short maps a length to a byte: exact to 63, then eight steps for each doubling, as in
// the norms of Lucene.
func short(n int) uint8 {
	if n < 64 {
		return uint8(n)
	}
	return uint8(min(255, 64+int(8*math.Log2(float64(n)/64))))
}

// long are the lengths that bytes stand for.
var long = func() (table [256]float64) {
	for b := range table {
		table[b] = float64(b)
		if b >= 64 {
			table[b] = 64 * math.Exp2(float64(b-64)/8)
		}
	}
	return table
}()

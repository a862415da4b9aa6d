package find

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// field is a part of an item.
type field uint8

const (
	fieldName field = iota
	fieldTitle
	fieldFirst        // the first sentence of the description
	fieldRest         // the rest of it
	fieldArgument     // names of arguments
	fieldArgumentText // their descriptions
	fieldEnum         // their permitted values
	fields
)

// fieldNames are the names for people.
var fieldNames = [fields]string{"name", "title", "description", "description", "argument", "argument description", "argument value"}

// counts holds how often a term occurs in each field: four bits a field, 15 and more
// are 15.
type counts uint32

func (c counts) of(f field) int { return int(c >> (4 * f) & 15) }

func (c counts) add(f field) counts {
	if c.of(f) == 15 {
		return c
	}
	return c + 1<<(4*f)
}

// posting says that a term occurs in a document.
type posting struct {
	doc    uint32
	counts counts
}

// entry says that a document has a term.
type entry struct {
	term   uint32
	counts counts
}

// lengths are the lengths of the fields of a document in words, each as one byte.
type lengths [fields]uint8

// Index is what can be found. It is immutable.
type Index struct {
	items   []document
	servers []server
	words   *words // all terms
	// list has the documents of each term, and starts where they begin: term t has
	// list[starts[t]:starts[t+1]].
	list   []posting
	starts []uint32
	// entries has the terms of each document in the same way.
	entries []entry
	begins  []uint32
}

// document is an indexed item.
type document struct {
	kind     mcp.Kind
	action   action
	readOnly bool
	server   uint32
	name     string
	hash     string
	lengths  lengths
}

// server is a server with the words of its name and its instructions.
type server struct {
	name, instructions string
	terms              []weighted // its name and instructions, each term once
	length             float64
}

// weighted is a term with a weight.
type weighted struct {
	term   uint32
	weight float32
}

// words numbers the terms. Numbers are stable from one index to the next. A words is
// not modified once its index is built.
type words struct {
	number map[string]uint32
	terms  []string
	grams  []uint64 // the signature of the character pairs of each term
}

func newWords() *words { return &words{number: map[string]uint32{}} }

// clone returns a copy to which terms can be added.
func (w *words) clone() *words {
	number := make(map[string]uint32, len(w.number)+len(w.number)/8)
	maps.Copy(number, w.number)
	return &words{number: number, terms: slices.Clone(w.terms), grams: slices.Clone(w.grams)}
}

func (w *words) add(term string) uint32 {
	if n, ok := w.number[term]; ok {
		return n
	}
	term = strings.Clone(term)
	n := uint32(len(w.terms))
	w.number[term] = n
	w.terms = append(w.terms, term)
	w.grams = append(w.grams, signature(term))
	return n
}

// signature has a bit for each pair of neighbouring bytes (a Bloom filter of one hash).
func signature(term string) uint64 {
	var s uint64
	for i := 1; i < len(term); i++ {
		s |= 1 << ((uint(term[i-1])*31 + uint(term[i])*7) & 63)
	}
	return s
}

// likely reports whether two terms may share at least half of their pairs.
func likely(a, b uint64) bool {
	return 2*bits.OnesCount64(a&b) >= max(bits.OnesCount64(a), bits.OnesCount64(b))
}

// Build indexes items. servers maps the name of a server to its instructions. previous
// may be nil; otherwise what it knows of unchanged servers is reused, and the result is
// the same as without it. Build does not modify its arguments. The index keeps the
// strings of items, but not their schemas.
func Build(items []Item, servers map[string]string, previous *Index) *Index {
	b := &builder{
		x:        &Index{items: make([]document, len(items)), begins: make([]uint32, 1, len(items)+1)},
		old:      map[string]uint32{},
		previous: previous,
		stems:    map[string]uint32{},
	}
	if previous != nil && !previous.wasteful() {
		b.x.words = previous.words.clone()
		for i := range previous.items {
			if d := &previous.items[i]; d.hash != "" {
				b.old[d.hash] = uint32(i)
			}
		}
	} else {
		b.x.words = newWords()
	}
	for i := range items {
		b.item(i, &items[i])
	}
	b.serversOf(items, servers)
	b.invert()
	return b.x
}

// wasteful reports whether most terms are of items that are gone.
func (x *Index) wasteful() bool {
	used := 0
	for t := range len(x.starts) - 1 {
		if x.starts[t] != x.starts[t+1] {
			used++
		}
	}
	return len(x.words.terms) > 1000 && used*2 < len(x.words.terms)
}

// builder makes an index.
type builder struct {
	x        *Index
	previous *Index
	old      map[string]uint32 // items of the previous index by hash
	stems    map[string]uint32 // words as they were read, to terms
	seen     map[uint32]int    // terms of the document being read, to their entry
	splitter splitter
	lens     [fields]int
}

// item indexes one item.
func (b *builder) item(i int, it *Item) {
	d := &b.x.items[i]
	*d = document{kind: it.Kind, readOnly: it.ReadOnly, name: it.Name, hash: it.Hash}
	defer func() { b.x.begins = append(b.x.begins, uint32(len(b.x.entries))) }()
	if j, ok := b.old[it.Hash]; ok && it.Hash != "" {
		p := b.previous
		d.lengths, d.action = p.items[j].lengths, p.items[j].action
		b.x.entries = append(b.x.entries, p.entries[p.begins[j]:p.begins[j+1]]...)
		return
	}
	b.seen, b.lens = map[uint32]int{}, [fields]int{}
	local := localName(it.Name, it.Server)
	d.action = actionOf(local)
	b.text(fieldName, local)
	if !strings.EqualFold(it.Title, local) {
		b.text(fieldTitle, it.Title)
	}
	first, rest := sentence(it.Description)
	b.text(fieldFirst, first)
	b.text(fieldRest, rest)
	a := arguments{report: b.text}
	a.read(it.Schema)
	for f := range fields {
		d.lengths[f] = short(b.lens[f])
	}
}

// maxText is how much of one text is indexed, in bytes.
const maxText = 16 << 10

// text adds the words of a text to the document being read.
func (b *builder) text(f field, text string) {
	if len(text) > maxText {
		text = text[:maxText]
	}
	b.splitter.split(text, func(word []byte) bool {
		term, ok := b.stems[string(word)]
		if !ok {
			w := string(word)
			term = b.x.words.add(stem(w))
			b.stems[w] = term
		}
		if f > fieldTitle && stopWords[string(word)] {
			return true
		}
		b.lens[f]++
		at, ok := b.seen[term]
		if !ok {
			at = len(b.x.entries)
			b.seen[term] = at
			b.x.entries = append(b.x.entries, entry{term: term})
		}
		b.x.entries[at].counts = b.x.entries[at].counts.add(f)
		return true
	})
}

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
	numbers := map[string]uint32{}
	names := []string{}
	for i := range items {
		if _, ok := numbers[items[i].Server]; !ok {
			numbers[items[i].Server] = 0
			names = append(names, items[i].Server)
		}
	}
	slices.Sort(names)
	b.x.servers = make([]server, len(names))
	for i, name := range names {
		numbers[name] = uint32(i)
		b.x.servers[i] = b.server(name, instructions[name])
	}
	for i := range items {
		b.x.items[i].server = numbers[items[i].Server]
	}
}

// maxInstructions is how much of the instructions of a server is indexed, in bytes.
const maxInstructions = 4 << 10

// server indexes the name and the instructions of a server.
func (b *builder) server(name, instructions string) server {
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
	if len(instructions) > maxInstructions {
		instructions = instructions[:maxInstructions]
	}
	read(instructions, 1)
	for t, w := range weights {
		s.terms = append(s.terms, weighted{t, w})
	}
	slices.SortFunc(s.terms, func(a, b weighted) int { return cmp.Compare(a.term, b.term) })
	return s
}

// serverNoise are words of names of servers that say nothing.
var serverNoise = wordSet("mcp server servers tool tools api plugin plugins service app official")

// invert makes the lists of documents from the lists of terms.
func (b *builder) invert() {
	x := b.x
	x.entries = slices.Clip(x.entries)
	x.starts = make([]uint32, len(x.words.terms)+1)
	for _, e := range x.entries {
		x.starts[e.term+1]++
	}
	for t := range len(x.words.terms) {
		x.starts[t+1] += x.starts[t]
	}
	at := slices.Clone(x.starts)
	x.list = make([]posting, len(x.entries))
	for d := range x.items {
		for _, e := range x.entries[x.begins[d]:x.begins[d+1]] {
			x.list[at[e.term]] = posting{uint32(d), e.counts}
			at[e.term]++
		}
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

// long is the length that a byte stands for.
func long(b uint8) float64 {
	if b < 64 {
		return float64(b)
	}
	return 64 * math.Exp2(float64(b-64)/8)
}

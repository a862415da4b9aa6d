package find

import (
	"iter"
	"maps"
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

// posting says that a term occurs in an item.
type posting struct {
	item   uint32
	counts counts
}

// Index is what can be found. It is immutable.
type Index struct {
	source  iter.Seq2[int, func() Item]
	facts   []facts // by item
	names   []string
	hashes  []string
	servers []server
	words   *words // all terms
	// list has the items of each term, in no order, and starts where they begin: term t
	// has list[starts[t]:starts[t+1]].
	list   []posting
	starts []uint32
	// serverList has the terms of all servers, sorted by term and server.
	serverList []serverTerm
}

// facts is what the ranking needs of an item. It is small, because a search reads it for
// each posting.
type facts struct {
	lengths  [fields]uint8 // of the fields in words, each as one byte
	kind     mcp.Kind
	action   action
	readOnly bool
	server   uint16
	twins    uint32 // a hash of the words of the name: tools of several servers with equal ones do the same
}

// server is a server with the words of its name and its instructions.
type server struct {
	name, instructions string
	terms              []weighted // each once, sorted
	length             float64
}

// weighted is a term with a weight.
type weighted struct {
	term   uint32
	weight float32
}

// serverTerm says that a term occurs in the name or the instructions of a server.
type serverTerm struct {
	term   uint32
	server uint16
	weight float32
}

// words numbers the terms. A words is not modified once its index is built.
type words struct {
	number map[string]uint32 // of most terms; copies share it
	newer  map[string]uint32 // of the terms that copies have added; nil for the first
	terms  []string
	grams  []uint64 // the signature of the character pairs of each term
}

func newWords() *words { return &words{number: map[string]uint32{}} }

// clone returns a copy to which terms can be added. The terms keep their numbers.
func (w *words) clone() *words {
	const room = 256 // terms that can be added to a copy before its lists move
	c := &words{number: w.number, newer: maps.Clone(w.newer)}
	c.terms = append(make([]string, 0, len(w.terms)+room), w.terms...)
	c.grams = append(make([]uint64, 0, len(w.grams)+room), w.grams...)
	if c.newer == nil {
		c.newer = map[string]uint32{}
	}
	if len(c.newer) > room && len(c.newer) > len(c.number)/8 { // or each copy would cost as much as all terms
		c.number = maps.Clone(w.number)
		maps.Copy(c.number, c.newer)
		c.newer = map[string]uint32{}
	}
	return c
}

// find returns the number of a term.
func (w *words) find(term string) (n uint32, ok bool) {
	if n, ok = w.number[term]; !ok {
		n, ok = w.newer[term]
	}
	return n, ok
}

func (w *words) add(term string) uint32 {
	if n, ok := w.find(term); ok {
		return n
	}
	term = strings.Clone(term)
	n := uint32(len(w.terms))
	if w.newer != nil {
		w.newer[term] = n
	} else {
		w.number[term] = n
	}
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

// likely reports whether two terms may share half of their pairs.
func likely(a, b uint64) bool {
	return 2*bits.OnesCount64(a&b) >= max(bits.OnesCount64(a), bits.OnesCount64(b))
}

// items returns the items that have a term.
func (x *Index) items(term uint32) []posting { return x.list[x.starts[term]:x.starts[term+1]] }

// countsOf returns how often an item has a term.
func (x *Index) countsOf(item, term uint32) counts {
	for _, p := range x.items(term) {
		if p.item == item {
			return p.counts
		}
	}
	return 0
}

// serverTerms returns the servers that have a term.
func (x *Index) serverTerms(term uint32) []serverTerm {
	from, _ := slices.BinarySearchFunc(x.serverList, term, byTerm)
	end := from
	for end < len(x.serverList) && x.serverList[end].term == term {
		end++
	}
	return x.serverList[from:end]
}

// compare orders items whose scores are equal.
func (x *Index) compare(a, b uint32) int {
	if c := strings.Compare(x.names[a], x.names[b]); c != 0 {
		return c
	}
	i, j := &x.facts[a], &x.facts[b]
	if c := strings.Compare(x.servers[i.server].name, x.servers[j.server].name); c != 0 {
		return c
	}
	if i.kind != j.kind {
		return int(i.kind) - int(j.kind)
	}
	return int(a) - int(b)
}

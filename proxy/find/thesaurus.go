package find

import (
	_ "embed"
	"strings"
	"sync"
)

// thesaurusText is the thesaurus: general knowledge of what tools are called, with one
// entry a line.
//
//	a, b, c       words that mean about the same
//	a = b, c      a means b and c, which do not mean each other; they mean a only if it
//	              is one word
//	a b -> c, d   in a query, the words a b are replaced by c and d
//	a > b, c      a is the wider word or the subject of b and c
//
// A line that begins with # is a comment. An entry of several words is known in
// queries, and stands for its words in items.
//
//go:embed thesaurus.txt
var thesaurusText string

// relation is how two words are related.
type relation uint8

const (
	relationSame relation = iota
	relationAlike
	relationWider    // the other word is wider: "hotel" to "travel"
	relationNarrower // the other word is narrower: "travel" to "hotel"
)

// related is a word that may stand for another.
type related struct {
	term     string // a stem
	relation relation
	parts    int // how many words the entry has that the stem is from
}

// thesaurus has the related words of stems, and of entries of several stems, which are
// joined by a space.
type thesaurus struct {
	of      map[string][]related
	idioms  map[string][]related // which replace their words
	longest int                  // words in the longest entry
}

var loadThesaurus = sync.OnceValue(func() *thesaurus { return parseThesaurus(thesaurusText) })

func parseThesaurus(text string) *thesaurus {
	t := &thesaurus{of: map[string][]related{}, idioms: map[string][]related{}, longest: 1}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if head, tail, ok := strings.Cut(line, "->"); ok {
			h := stems(head)
			t.longest = max(t.longest, len(h))
			for _, e := range entriesOf(tail) {
				for _, term := range e {
					key := strings.Join(h, " ")
					t.idioms[key] = append(t.idioms[key], related{term, relationSame, len(e)})
				}
			}
			continue
		}
		if head, tail, ok := strings.Cut(line, "="); ok {
			h := stems(head)
			for _, e := range entriesOf(tail) {
				t.add(h, e, relationSame)
				if len(h) == 1 { // "log in" is "login", but "login" is neither "log" nor "in"
					t.add(e, h, relationSame)
				}
			}
			continue
		}
		if head, tail, ok := strings.Cut(line, ">"); ok {
			for _, h := range entriesOf(head) {
				for _, e := range entriesOf(tail) {
					t.add(e, h, relationWider)
					t.add(h, e, relationNarrower)
				}
			}
			continue
		}
		all := entriesOf(line)
		for i, a := range all {
			for j, b := range all {
				if i != j {
					t.add(a, b, relationAlike)
				}
			}
		}
	}
	return t
}

func entriesOf(list string) [][]string {
	var out [][]string
	for e := range strings.SplitSeq(list, ",") {
		if s := stems(e); len(s) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// stems returns the stems of a text.
func stems(text string) []string {
	var s splitter
	var out []string
	s.split(text, func(word []byte) bool {
		out = append(out, stem(string(word)))
		return true
	})
	return out
}

func (t *thesaurus) add(from, to []string, r relation) {
	t.longest = max(t.longest, len(from))
	key := strings.Join(from, " ")
	list := t.of[key]
next:
	for _, term := range to {
		if term == key {
			continue
		}
		for i := range list {
			if list[i].term == term {
				if r < list[i].relation {
					list[i].relation, list[i].parts = r, len(to)
				}
				continue next
			}
		}
		list = append(list, related{term, r, len(to)})
	}
	t.of[key] = list
}

package find

import "sync"

// loadVocabulary returns the words of which joined names may consist. They are those of
// the thesaurus and of the lists of this package, and never those of a catalog, so that
// how a name is cut does not depend on other items.
var loadVocabulary = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	var s splitter
	s.split(thesaurusText, func(w []byte) bool {
		all[string(w)] = true
		return true
	})
	for w := range weakWords {
		all[w] = true
	}
	for w := range actions {
		all[w] = true
	}
	for w := range stopWords {
		delete(all, w)
	}
	return all
})

// segments cuts a joined name, such as "getuserinfo", into two or more words of the
// vocabulary with at least three letters. It returns the cut with the fewest words, and
// nil if there is none.
func segments(name string) []string {
	const shortest, longest = 3, maxWord
	words := loadVocabulary()
	if len(name) < 2*shortest || len(name) > longest || words[name] {
		return nil
	}
	var from, count [longest + 1]int // of the best cut that ends here
	for end := shortest; end <= len(name); end++ {
		for start := 0; start <= end-shortest; start++ {
			if start > 0 && count[start] == 0 || !words[name[start:end]] {
				continue
			}
			if n := count[start] + 1; count[end] == 0 || n < count[end] {
				count[end], from[end] = n, start
			}
		}
	}
	if count[len(name)] < 2 {
		return nil
	}
	out := make([]string, count[len(name)])
	for end := len(name); end > 0; end = from[end] {
		out[count[end]-1] = name[from[end]:end]
	}
	return out
}

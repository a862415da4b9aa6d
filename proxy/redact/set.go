package redact

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Set holds any number of secrets that come and go. The time of a search does not grow
// with their number, unless they share a prefix. It searches for the spellings of
// [Options.Secrets]. The zero Set is empty. It is safe for concurrent use.
type Set struct {
	mu     sync.RWMutex
	counts map[string]int      // how often each secret was added
	begin  map[string][]string // spellings by their first MinSecret bytes
	used   map[string]int      // how many secrets have a spelling
}

// Add adds a secret, until it is removed as often as it was added.
func (s *Set) Add(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts, s.begin, s.used = make(map[string]int), make(map[string][]string), make(map[string]int)
	}
	if s.counts[secret]++; s.counts[secret] > 1 {
		return
	}
	for _, text := range variants([]string{secret}) {
		if s.used[text]++; s.used[text] == 1 {
			s.begin[text[:MinSecret]] = append(s.begin[text[:MinSecret]], text)
		}
	}
}

// Remove reverts one [Set.Add].
func (s *Set) Remove(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n := s.counts[secret]; {
	case n == 0:
		return
	case n > 1:
		s.counts[secret]--
		return
	}
	delete(s.counts, secret)
	for _, text := range variants([]string{secret}) {
		if s.used[text]--; s.used[text] > 0 {
			continue
		}
		delete(s.used, text)
		left := slices.DeleteFunc(s.begin[text[:MinSecret]], func(other string) bool { return other == text })
		if s.begin[text[:MinSecret]] = left; len(left) == 0 {
			delete(s.begin, text[:MinSecret])
		}
	}
}

// Len returns the number of secrets.
func (s *Set) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.counts)
}

// lookEvery is after how many bytes the clock is checked.
const lookEvery = 16 << 10

// find implements [rule]. At each position the longest spelling counts.
func (s *Set) find(text string, f *finds) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.begin) == 0 {
		return
	}
	for at := 0; at+MinSecret <= len(text); {
		if at%lookEvery == 0 && !f.until.IsZero() && time.Now().After(f.until) {
			f.late = true
			return
		}
		longest := 0
		for _, value := range s.begin[text[at:at+MinSecret]] {
			if n := common(text[at:], value); n > longest && (n == len(value) || cutOff(text[at+n:])) {
				longest = n
			}
		}
		if longest == 0 {
			at++
			continue
		}
		f.add(at, at+longest, "secret")
		at += longest
	}
}

// cutOff reports whether a text continues with an ellipsis, by which somebody has cut
// off what stood there.
func cutOff(rest string) bool {
	return strings.HasPrefix(rest, "...") || strings.HasPrefix(rest, cutMark) || strings.HasPrefix(rest, `\u2026`)
}

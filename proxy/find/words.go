package find

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// maxWord is the longest word in bytes. Longer ones are cut: they are encoded data, and
// no one types them.
const maxWord = 40

// splitter cuts texts into words.
//
// Runs of letters and digits are words. They are also cut where the case changes
// (createIssue, HTTPServer) and between letters and digits, and short mixed words stay
// whole as well (s3, k8s, YouTube). Scripts without spaces give overlapping pairs of
// characters.
type splitter struct {
	buf []byte
}

// split calls yield with each word of the text in lower case, unstemmed. The word is
// valid until yield returns. It stops when yield returns false.
func (s *splitter) split(text string, yield func(word []byte) bool) {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case unspaced(r):
			end := i + size
			for end < len(text) {
				next, n := utf8.DecodeRuneInString(text[end:])
				if !unspaced(next) {
					break
				}
				end += n
			}
			if !pairs(text[i:end], yield) {
				return
			}
			i = end
		case letter(r) || unicode.IsDigit(r):
			end := i + size
			for end < len(text) {
				next, n := utf8.DecodeRuneInString(text[end:])
				if unspaced(next) || !letter(next) && !unicode.IsDigit(next) {
					break
				}
				end += n
			}
			if !s.run(text[i:end], yield) {
				return
			}
			i = end
			// The s of "user's" and the t of "don't" are no words.
			if rest, ok := apostrophe(text[i:]); ok {
				if c := firstByte(rest); (c == 's' || c == 't') && !letterAt(rest, 1) {
					i = len(text) - len(rest) + 1
				}
			}
		default:
			i += size
		}
	}
}

func apostrophe(s string) (rest string, ok bool) {
	if rest, ok = strings.CutPrefix(s, "'"); ok {
		return rest, true
	}
	return strings.CutPrefix(s, "’")
}

func firstByte(s string) byte {
	if s == "" {
		return 0
	}
	return s[0]
}

func letterAt(s string, i int) bool {
	if i >= len(s) {
		return false
	}
	r, _ := utf8.DecodeRuneInString(s[i:])
	return letter(r)
}

// letter includes marks, which belong to the letter before them.
func letter(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) }

// unspaced reports whether a character belongs to a script that puts no spaces between
// words.
func unspaced(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// pairs yields each two neighbours of a run, or the only character.
func pairs(run string, yield func([]byte) bool) bool {
	_, first := utf8.DecodeRuneInString(run)
	if first == len(run) {
		return yield([]byte(run))
	}
	for i, j := 0, first; j < len(run); {
		_, n := utf8.DecodeRuneInString(run[j:])
		if !yield([]byte(run[i : j+n])) {
			return false
		}
		i, j = j, j+n
	}
	return true
}

// class is what matters about a character inside of a run.
type class uint8

const (
	lower class = iota
	upper
	digit
)

func classOf(r rune) class {
	switch {
	case unicode.IsDigit(r):
		return digit
	case unicode.IsUpper(r):
		return upper
	}
	return lower
}

// run yields the parts of a run of letters and digits, and the run itself where it reads
// as one word.
func (s *splitter) run(run string, yield func([]byte) bool) bool {
	parts, start := 0, 0
	var last, before class
	lastAt := 0
	longest := 0
	cut := func(end int) bool {
		part := run[start:end]
		start = end
		parts++
		longest = max(longest, len(part))
		// A single letter inside of a run says nothing, unlike a run of one letter.
		if len(part) < 2 && end-len(part) != 0 && !isDigits(part) || len(part) == 1 && end != len(run) && !isDigits(part) {
			return true
		}
		return yield(s.lower(part))
	}
	for i, r := range run {
		c := classOf(r)
		if i > 0 {
			switch {
			case c == digit && last != digit, c != digit && last == digit, c == upper && last == lower:
				if !cut(i) {
					return false
				}
			case c == lower && last == upper && before == upper && lastAt > start:
				if !cut(lastAt) { // HTTPServer: the last capital belongs to the next word
					return false
				}
			}
		}
		before, last, lastAt = last, c, i
	}
	if parts == 0 {
		return yield(s.lower(run))
	}
	if !cut(len(run)) {
		return false
	}
	if parts == 2 && len(run) <= 12 || len(run) <= 6 {
		return yield(s.lower(run))
	}
	return true
}

func isDigits(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

func (s *splitter) lower(word string) []byte {
	s.buf = s.buf[:0]
	for _, r := range word {
		if len(s.buf) >= maxWord {
			break
		}
		s.buf = utf8.AppendRune(s.buf, unicode.ToLower(r))
	}
	return s.buf
}

// stem returns the stem of a word in lower case (Porter, "Snowball", 2001: the English
// stemmer). Words of other alphabets, and words with digits, stay as they are.
func stem(word string) string {
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return word
		}
	}
	if len(word) < 3 {
		return word
	}
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	return env.Current()
}

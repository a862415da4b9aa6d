package governance

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxPath is the longest text that is read as a path, in bytes. No system opens
	// longer ones.
	maxPath = 8192
	// maxRounds is how often percent encoding is decoded.
	maxRounds = 8
)

// lookAlikes are characters that look like a character with a meaning in paths. Some
// programs convert them to it.
var lookAlikes = map[rune]string{
	'\u2044': "/", '\u2215': "/", '\u29F8': "/", '\uFF0F': "/", '\u2571': "/", '\u27CB': "/",
	'\u2216': `\`, '\u29F5': `\`, '\u29F9': `\`, '\uFF3C': `\`, '\uFE68': `\`, '\u27CD': `\`,
	'\u2024': ".", '\u2025': "..", '\u2026': "...", '\uFE52': ".", '\uFF0E': ".",
	'\uFF5E': "~", '\u02DC': "~", '\uFF04': "$", '\uFE69': "$", '\uFF05': "%", '\uFE6A': "%",
	'\uFF1A': ":", '\uFE55': ":", '\uA789': ":", '\u2236': ":", '\uFF5B': "{", '\uFF5D': "}",
}

// stages returns a text, followed by the results of decoding its percent encoding
// repeatedly. The error says why the text cannot be read.
func stages(text string) ([]string, error) {
	if len(text) > maxPath {
		return nil, fmt.Errorf("has %d bytes, and a path has at most %d", len(text), maxPath)
	}
	all := []string{text}
	for {
		last := all[len(all)-1]
		if err := legible(last); err != nil {
			return nil, err
		}
		next := unescape(last)
		if next == last {
			return all, nil
		}
		if len(all) > maxRounds {
			return nil, fmt.Errorf("is percent-encoded more than %d times", maxRounds)
		}
		all = append(all, next)
	}
}

// unescape decodes percent encoding once: %XX and %uXXXX. Like lenient programs, it
// keeps invalid sequences.
func unescape(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		if i+1 < len(text) && (text[i+1] == 'u' || text[i+1] == 'U') {
			if r, ok := hex(text, i+2, 4); ok {
				b.WriteRune(r)
				i += 5
				continue
			}
		}
		if c, ok := hex(text, i+1, 2); ok {
			b.WriteByte(byte(c))
			i += 2
			continue
		}
		b.WriteByte('%')
	}
	return b.String()
}

// hex reads n hexadecimal digits.
func hex(text string, at, n int) (value rune, ok bool) {
	if at+n > len(text) {
		return 0, false
	}
	for _, c := range []byte(text[at : at+n]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		value = value<<4 | rune(c)
	}
	return value, true
}

// legible refuses characters that no honest path contains.
func legible(text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("is not valid UTF-8 once it is decoded")
	}
	for _, r := range text {
		if r >= ' ' && r <= '~' {
			continue
		}
		if like, ok := lookAlikes[r]; ok {
			return fmt.Errorf("holds %U, which looks like %s", r, like)
		}
		switch {
		case r == 0:
			return fmt.Errorf("holds a NUL character")
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return fmt.Errorf("holds the control character %U", r)
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r), r == '\u115F', r == '\u1160', r == '\u3164', r == '\uFFA0':
			return fmt.Errorf("holds the invisible character %U", r)
		case r == utf8.RuneError:
			return fmt.Errorf("holds a character that was lost in an earlier conversion")
		}
	}
	return nil
}

// narrow folds full-width letters and signs to ASCII.
func narrow(text string) string {
	if ascii(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '\uFF01' && r <= '\uFF5E':
			return r - '\uFF01' + '!'
		case unicode.Is(unicode.Zs, r):
			return ' '
		}
		return r
	}, text)
}

// foldCase maps all characters that differ only in case to the same character.
func foldCase(text string) string {
	if ascii(text) {
		return strings.ToUpper(text) // upper case comes first in ASCII
	}
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, text)
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

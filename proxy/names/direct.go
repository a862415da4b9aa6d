package names

import (
	"encoding/hex"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// separators decodes the escapes of characters that separate the parts of a URI, or end
// a name.
var separators = strings.NewReplacer("%00", "\x00", "%3b", ";", "%3B", ";", "%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/", `\`, "/", "%25", "%")

// Direct reports whether a URI leads where it says. Before servers look up a URI, they
// may resolve "." and ".." in its path, with or without parameters after a semicolon.
// They may end a name at NUL, drop characters that no URI has, interpret invalid UTF-8
// in their own way, and fold the scheme. A rule about such a URI would be about another
// resource.
func Direct(uri string) bool {
	if strings.ContainsFunc(uri, unicode.IsControl) || strings.TrimSpace(uri) != uri {
		return false
	}
	scheme, rest, _ := strings.Cut(uri, ":")
	if strings.ToLower(scheme) != scheme {
		return false
	}
	for range 4 { // escaped escapes
		rest = separators.Replace(rest)
	}
	if plain := unescaped(rest); !utf8.ValidString(plain) || strings.ContainsFunc(plain, invisible) {
		return false
	}
	for segment := range strings.SplitSeq(rest, "/") {
		segment, _, _ = strings.Cut(segment, ";")
		segment, _, _ = strings.Cut(segment, "?")
		segment, _, _ = strings.Cut(segment, "#")
		if segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// unescaped decodes the escapes of a text once. Anything else stays.
func unescaped(text string) string {
	return escapes.ReplaceAllStringFunc(text, func(e string) string {
		b, _ := hex.DecodeString(e[1:]) // the pattern matches only valid escapes
		return string(b)
	})
}

var escapes = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// invisible reports whether a character is a control, or changes the direction of text.
func invisible(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

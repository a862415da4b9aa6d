package files

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// fold maps all names that some file system treats as equal to the same text: names
// that differ in case, in Unicode normal form, or in invisible characters.
func fold(path string) string {
	ascii := true
	for i := range len(path) {
		if path[i] >= 0x80 {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(path)
	}
	path = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		// Upper case comes first, because several small letters share a capital, such as
		// s and the long s.
		return unicode.ToLower(unicode.ToUpper(r))
	}, norm.NFKD.String(path))
	return norm.NFKD.String(strings.ReplaceAll(path, "ß", "ss"))
}

package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/logs"
)

// say prints for a person, on stdout. What commands print comes from servers,
// callers and files of others, so nothing in it acts on the terminal.
func say(format string, args ...any) { fsay(os.Stdout, format, args...) }

// fsay is say to another writer.
func fsay(w io.Writer, format string, args ...any) {
	_, _ = io.WriteString(w, shown(fmt.Sprintf(format, args...))) // nobody is left to be told
}

// shown is a text of several lines with every character escaped that a terminal
// acts on or that changes how others are shown.
func shown(text string) string {
	if !strings.ContainsFunc(text, actsInText) && utf8.ValidString(text) {
		return text
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if actsInText(r) {
			writeEscape(&b, r, false)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// shownJSON is JSON of the same value in which those characters are escapes.
// Outside strings it has none of them but newlines.
func shownJSON(text []byte) []byte {
	if !strings.ContainsFunc(string(text), actsInText) {
		return text
	}
	var b strings.Builder
	for _, r := range string(text) {
		if actsInText(r) {
			writeEscape(&b, r, true)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}

func actsInText(r rune) bool { return r != '\n' && r != '\t' && logs.Acts(r) }

// writeEscape writes the escape of a character: for JSON, which has no longer one,
// as a pair where it needs that.
func writeEscape(b *strings.Builder, r rune, pair bool) {
	switch {
	case r <= 0xFFFF:
		fmt.Fprintf(b, `\u%04x`, r)
	case pair:
		high, low := utf16.EncodeRune(r)
		fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// shortText bounds a text within a line of a page, longText one that has a place of its
	// own. Both are bytes.
	shortText = 300
	longText  = 64 << 10
)

// short returns a text for a line of a page.
func short(s string) string { return bounded(s, shortText, false) }

// long returns a text with its lines.
func long(s string) string { return bounded(s, longText, true) }

// bounded returns a text in which everything can be seen: characters that control, or that
// change the order of others, are written as their numbers. What is too long is cut.
func bounded(s string, limit int, lines bool) string {
	rest := 0
	if len(s) > limit {
		cut := limit
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		rest, s = len(s)-cut, s[:cut]
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case acts(r):
			fmt.Fprintf(&b, "‹U+%04X›", r)
		default:
			b.WriteRune(r)
		}
	}
	if rest > 0 {
		fmt.Fprintf(&b, " … and %d bytes more", rest)
	}
	return b.String()
}

// micros writes microseconds for people.
func micros(us int64) string {
	switch {
	case us < 1_000:
		return fmt.Sprintf("%d µs", us)
	case us < 1_000_000:
		return fmt.Sprintf("%.1f ms", float64(us)/1_000)
	}
	return fmt.Sprintf("%.2f s", float64(us)/1_000_000)
}

// took writes how long something has taken for people.
func took(from, to time.Time) string { return micros(to.Sub(from).Microseconds()) }

// visibleJSON returns JSON for a place where it is changed: characters that control, or that
// change the order of others, are escaped as JSON does. Valid JSON has them in texts alone.
func visibleJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || !acts(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// acts tells whether a character controls what is shown, or cannot be shown.
func acts(r rune) bool {
	return r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp)
}

// seconds writes a number of seconds for people.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", s)
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// size writes a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// clock writes a time in UTC, which every reader of a log has as well.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}

// day and hour are the parts of [clock], of which a narrow page shows one.
func day(t time.Time) string { date, _, _ := strings.Cut(clock(t), " "); return date }

func hour(t time.Time) string { _, hour, _ := strings.Cut(clock(t), " "); return hour }

// diffLine is a line of a difference, and how it looks.
type diffLine struct{ Text, Class string }

// diffLines are the lines of a difference, as [long] has them.
func diffLines(diff string) (lines []diffLine) {
	for line := range strings.Lines(long(diff)) {
		l := diffLine{Text: strings.TrimSuffix(line, "\n")}
		switch {
		case strings.HasPrefix(line, "+"):
			l.Class = "good"
		case strings.HasPrefix(line, "-"):
			l.Class = "bad"
		}
		lines = append(lines, l)
	}
	return lines
}

const (
	// maxIndented bounds the JSON that is indented, in bytes, and maxDepth how deep it may be:
	// the spaces of what is deep are far more than it.
	maxIndented = 64 << 10
	maxDepth    = 30
)

// indented returns JSON with lines for people, or as it is.
func indented(raw json.RawMessage) string {
	if len(raw) > maxIndented {
		return string(raw)
	}
	depth, text := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return string(raw)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil || b.Len() > longText {
		return string(raw) // whole, where its lines would be cut
	}
	return b.String()
}

// quote writes an argument of a command for a shell.
func quote(s string) string {
	plain := func(r rune) bool {
		return r == '_' || r == '-' || r == '.' || r == '/' || r == ':' || r == '=' || r == '@' || r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r))
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 && (s[0] != '-' || strings.HasPrefix(s, "--")) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// command writes a command with its arguments for a shell.
func command(words ...string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = quote(w)
	}
	return "toolgate " + strings.Join(out, " ")
}

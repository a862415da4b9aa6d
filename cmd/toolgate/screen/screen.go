// Package screen writes for people: columns that fit their terminal, colours where they
// are wanted, and a table that is drawn again in its place.
package screen

import (
	"fmt"
	"os"
	"strings"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// Screen is what text is written to. The zero value is a file or a pipe: lines of any
// length, without colours.
type Screen struct {
	Width   int  // columns of the terminal; 0 for no limit
	Height  int  // lines of the terminal; 0 for no limit
	Colours bool // whether states are coloured
}

// Of returns the screen behind a file. Colours follow NO_COLOR (no-color.org), TERM and
// CLICOLOR_FORCE (bixense.com/clicolors).
func Of(f *os.File) *Screen {
	s := &Screen{}
	terminal := term.IsTerminal(int(f.Fd()))
	if terminal {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil {
			s.Width, s.Height = width, height
		}
	}
	force := os.Getenv("CLICOLOR_FORCE")
	switch {
	case os.Getenv("NO_COLOR") != "":
	case force != "" && force != "0":
		s.Colours = true
	default:
		s.Colours = terminal && os.Getenv("TERM") != "dumb"
	}
	return s
}

// The colours of ECMA-48, 8.3.117.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	faint  = "2"
)

// colours are those of words in the columns STATE, STATUS and LEVEL.
var colours = map[string]string{
	"ready": green, "ok": green, "active": green, "allow": green, "closed": green,
	"failed": red, "refused": red, "error": red, "deny": red, "open": red,
	"starting": yellow, "reconnecting": yellow, "stale": yellow, "needs_login": yellow, "pending": yellow,
	"held": yellow, "orphaned": yellow, "warning": yellow, "half-open": yellow, "waiting": yellow,
	"disabled": faint, "abstain": faint,
}

// paint colours a cell by its first word, in a column that tells a state.
func (s *Screen) paint(column, cell string) string {
	if !s.Colours || column != "STATE" && column != "STATUS" && column != "LEVEL" {
		return cell
	}
	word, _, _ := strings.Cut(cell, " ")
	if colour, ok := colours[word]; ok {
		return "\x1b[" + colour + "m" + cell + "\x1b[0m"
	}
	return cell
}

// Count writes a number with its noun, in the plural unless it is one: "1 server",
// "3 servers".
func Count(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "y"):
		noun = strings.TrimSuffix(noun, "y") + "ies"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Wrap returns a line as lines that fit the screen, broken between words. All but the first
// one are indented by two more spaces. A word that does not fit a line has one of its own,
// so that an address can be copied.
func (s *Screen) Wrap(text string) string {
	if s.Width == 0 || runewidth.StringWidth(text) <= s.Width {
		return text + "\n"
	}
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	var out strings.Builder
	out.WriteString(indent)
	used := len(indent)
	for i, word := range strings.Fields(text) {
		width := runewidth.StringWidth(word)
		switch {
		case i == 0:
		case used+1+width > s.Width:
			out.WriteString("\n  " + indent)
			used = len(indent) + 2
		default:
			out.WriteByte(' ')
			used++
		}
		out.WriteString(word)
		used += width
	}
	return out.String() + "\n"
}

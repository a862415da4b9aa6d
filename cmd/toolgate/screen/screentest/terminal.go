// Package screentest shows a test what a person sees on a terminal.
package screentest

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// Terminal understands as much of a terminal (ECMA-48, xterm) as the program uses: lines
// that wrap and scroll, CR, BS, the cursor up (CUU) and at a place (CUP), erasing (ED, EL),
// colours (SGR), and a second screen (1049). It is not safe for concurrent use.
type Terminal struct {
	width, height int

	page
	shell *page  // what the second screen covers
	rest  string // the beginning of a sequence or a character
	wraps int
}

// page is a screen with what was scrolled out of it.
type page struct {
	lines    [][]rune
	goesOn   map[int]bool // the lines that were too long and continue on the next one
	row, col int          // of the cursor, in lines
}

// New returns an empty terminal. A height of 0 has no limit.
func New(width, height int) *Terminal { return &Terminal{width: width, height: height} }

// Wraps is how often a line was too long for the terminal.
func (t *Terminal) Wraps() int { return t.wraps }

// Covered tells whether the second screen is shown.
func (t *Terminal) Covered() bool { return t.shell != nil }

// String returns the lines that are seen, and those above that were scrolled out.
func (t *Terminal) String() string {
	var b strings.Builder
	for _, line := range t.lines {
		b.WriteString(strings.TrimRight(strings.ReplaceAll(string(line), "\x00", ""), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// Write takes what a program writes.
func (t *Terminal) Write(p []byte) (int, error) {
	text := t.rest + string(p)
	t.rest = ""
	for text != "" {
		switch {
		case text == "\x1b", !utf8.FullRuneInString(text):
			t.rest = text
			return len(p), nil
		case strings.HasPrefix(text, "\x1b["):
			end := strings.IndexFunc(text[2:], func(r rune) bool { return r >= '@' && r <= '~' })
			if end < 0 {
				t.rest = text
				return len(p), nil
			}
			t.sequence(text[2:2+end], text[2+end])
			text = text[2+end+1:]
		default:
			r, size := utf8.DecodeRuneInString(text)
			t.put(r)
			text = text[size:]
		}
	}
	return len(p), nil
}

// sequence obeys a control sequence.
func (t *Terminal) sequence(parameters string, final byte) {
	number, _ := strconv.Atoi(parameters)
	switch final {
	case 'A':
		t.row = max(t.top(), t.row-max(number, 1))
	case 'H':
		line, column, _ := strings.Cut(parameters, ";")
		y, _ := strconv.Atoi(line)
		x, _ := strconv.Atoi(column)
		t.row, t.col = t.top()+max(y, 1)-1, max(x, 1)-1
	case 'J':
		maps.DeleteFunc(t.goesOn, func(line int, _ bool) bool { return line >= t.row })
		if number == 2 {
			t.lines = t.lines[:min(t.top(), len(t.lines))]
			break
		}
		t.erase()
		t.lines = t.lines[:t.row+1]
	case 'K':
		t.erase()
	case 'h':
		if parameters == "?1049" && t.shell == nil {
			shell := t.page
			t.shell, t.page = &shell, page{}
		}
	case 'l':
		if parameters == "?1049" && t.shell != nil {
			t.page, t.shell = *t.shell, nil
		}
	}
}

// put shows a character.
func (t *Terminal) put(r rune) {
	switch r {
	case '\n':
		t.row++
		t.col = 0 // the terminal's own driver adds the CR
		t.reach()
	case '\r':
		t.col = 0
	case '\b':
		t.col = max(0, t.col-1)
	default:
		width := runewidth.RuneWidth(r)
		if t.col+width > t.width {
			t.note(t.row)
			t.row, t.col = t.row+1, 0
			t.wraps++
		}
		t.reach()
		line := t.lines[t.row]
		for len(line) <= t.col {
			line = append(line, ' ')
		}
		line[t.col] = r
		for i := 1; i < width; i++ { // a wide character has no second cell
			if t.col+i < len(line) {
				line[t.col+i] = 0
			} else {
				line = append(line, 0)
			}
		}
		t.lines[t.row] = line
		t.col += width
	}
}

// note remembers that a line continues on the next one.
func (p *page) note(line int) {
	if p.goesOn == nil {
		p.goesOn = make(map[int]bool)
	}
	p.goesOn[line] = true
}

// Resize changes the width. Lines are wrapped again, as most terminals do. The cursor stays
// at its character.
func (t *Terminal) Resize(width int) {
	old := t.page
	t.width, t.page = width, page{}
	for i := 0; i < len(old.lines) || i <= old.row; i++ {
		var whole []rune
		cursor := -1
		for {
			if i == old.row {
				cursor = len(whole) + old.col
			}
			if i < len(old.lines) {
				whole = append(whole, old.lines[i]...)
			}
			if !old.goesOn[i] {
				break
			}
			i++
		}
		for len(whole) > width {
			cursor = t.line(whole[:width], cursor)
			t.note(len(t.lines) - 1)
			whole = whole[width:]
		}
		t.line(whole, cursor)
	}
}

// line adds a line of a screen that is resized. cursor is where the cursor is in it, and is
// returned for the rest of the line.
func (t *Terminal) line(text []rune, cursor int) int {
	if cursor >= 0 && (cursor < len(text) || len(text) < t.width) {
		t.row, t.col = len(t.lines), cursor
		cursor = -1
	}
	t.lines = append(t.lines, slices.Clone(text))
	return cursor - len(text)
}

// erase removes what is right of the cursor.
func (t *Terminal) erase() {
	t.reach()
	t.lines[t.row] = t.lines[t.row][:min(t.col, len(t.lines[t.row]))]
}

// reach makes the lines down to the cursor.
func (p *page) reach() {
	for len(p.lines) <= p.row {
		p.lines = append(p.lines, nil)
	}
}

// top is the first line that is not scrolled out.
func (t *Terminal) top() int {
	if t.height == 0 {
		return 0
	}
	return max(0, len(t.lines)-t.height)
}

// Package terminal runs a command on a pseudo-terminal, and knows what a person sees there.
// Tests and the picture of the README use it.
package terminal

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// Cell is one character on a screen. After a wide character there is one without a rune.
type Cell struct {
	Rune   rune
	Colour int  // of ECMA-48, 8.3.117: 31 is red, 32 green, 33 yellow; 0 is that of the terminal
	Bold   bool // increased intensity
	Faint  bool // decreased intensity
}

// maxLines bounds what a screen keeps. A program that writes more lost its reader before.
const maxLines = 10_000

// Screen is what is to be seen on a terminal, with the lines that have left it at the top.
// It knows the control sequences that toolgate and common programs write (ECMA-48, xterm),
// and ignores the others. It is not safe for concurrent use.
type Screen struct {
	columns, rows int

	page
	covered *page  // what the second screen (DECSET 1049) covers
	style   Cell   // of what is written next
	title   string // set by OSC 0
	rest    []byte // the beginning of a sequence or character
	wraps   int
}

// page is one of the two screens of a terminal.
type page struct {
	lines       [][]Cell
	continued   map[int]bool // lines that were too long and continue on the next one
	row, column int          // of the cursor; row is an index of lines
}

// NewScreen returns an empty screen.
func NewScreen(columns, rows int) *Screen {
	return &Screen{columns: columns, rows: rows, page: page{lines: make([][]Cell, 1)}}
}

// Wraps is how often a line was too long for the screen.
func (s *Screen) Wraps() int { return s.wraps }

// Covered tells whether the second screen is shown, as a program that draws on all of the
// terminal shows it.
func (s *Screen) Covered() bool { return s.covered != nil }

// String returns the lines of the screen without colours.
func (s *Screen) String() string { return strings.TrimRight(Text(s.cells()), "\n") + "\n" }

// Write shows what a program writes.
func (s *Screen) Write(p []byte) (int, error) {
	n := len(p)
	p = append(s.rest, p...)
	for len(p) > 0 {
		n := s.next(p)
		if n == 0 {
			break
		}
		p = p[n:]
	}
	s.rest = slices.Clone(p)
	return n, nil
}

// next handles the first character or sequence, and returns its length; 0 if its end is
// not there yet.
func (s *Screen) next(p []byte) int {
	switch p[0] {
	case '\x1b':
		return s.escape(p)
	case '\r':
		s.column = 0
	case '\n':
		s.down()
		s.column = 0 // the terminal's own driver adds the CR
	case '\b':
		s.column = max(s.column-1, 0)
	case '\t':
		s.column = min(s.column/8*8+8, s.columns-1)
	default:
		if p[0] < ' ' {
			return 1
		}
		if !utf8.FullRune(p) {
			return 0
		}
		r, n := utf8.DecodeRune(p)
		s.put(r)
		return n
	}
	return 1
}

// escape handles a sequence that begins with ESC.
func (s *Screen) escape(p []byte) int {
	if len(p) < 2 {
		return 0
	}
	switch p[1] {
	case '[':
		for i := 2; i < len(p); i++ {
			if p[i] >= '@' && p[i] <= '~' {
				s.control(p[i], string(p[2:i]))
				return i + 1
			}
		}
		return 0
	case ']':
		for i := 2; i < len(p); i++ {
			if p[i] == '\a' {
				if title, ok := strings.CutPrefix(string(p[2:i]), "0;"); ok {
					s.title = title
				}
				return i + 1
			}
		}
		return 0
	}
	for i := 1; i < len(p); i++ {
		if p[i] >= '0' {
			return i + 1
		}
	}
	return 0
}

// control carries out a control sequence with its parameters.
func (s *Screen) control(final byte, parameters string) {
	n, err := strconv.Atoi(parameters)
	many := 1
	if err == nil {
		many = max(n, 1)
	}
	switch final {
	case 'A': // CUU
		s.row = max(s.row-many, s.top())
	case 'B': // CUD
		for range many {
			s.down()
		}
	case 'C': // CUF
		s.column = min(s.column+many, s.columns-1)
	case 'D': // CUB
		s.column = max(s.column-many, 0)
	case 'H': // CUP
		s.place(parameters)
	case 'J': // ED
		s.erase(n == 2)
	case 'K': // EL
		s.cutLine()
	case 'h', 'l': // DECSET, DECRST
		if parameters == "?1049" {
			s.cover(final == 'h')
		}
	case 'm': // SGR
		for one := range strings.SplitSeq(parameters, ";") {
			s.rendition(one)
		}
	}
}

// place moves the cursor to a line and a column, which count from 1.
func (s *Screen) place(parameters string) {
	line, column, _ := strings.Cut(parameters, ";")
	y, _ := strconv.Atoi(line) // nothing is the first
	x, _ := strconv.Atoi(column)
	row := s.top() + min(max(y, 1), s.rows) - 1
	s.column = min(max(x, 1), s.columns) - 1
	if s.row = min(row, len(s.lines)-1); s.row < row {
		for range row - s.row {
			s.down()
		}
	}
}

// erase removes what follows the cursor, or everything that the terminal shows.
func (s *Screen) erase(all bool) {
	from := s.row
	if all {
		from = s.top()
	}
	maps.DeleteFunc(s.continued, func(line int, _ bool) bool { return line >= from })
	if all {
		s.lines = append(s.lines[:from], make([][]Cell, s.row-from+1)...)
		return
	}
	s.lines = s.lines[:s.row+1]
	s.cutLine()
}

// cover shows the second screen, or removes it.
func (s *Screen) cover(covers bool) {
	switch {
	case covers && s.covered == nil:
		shell := s.page
		s.covered, s.page = &shell, page{lines: make([][]Cell, 1)}
	case !covers && s.covered != nil:
		s.page, s.covered = *s.covered, nil
	}
}

func (s *Screen) rendition(parameter string) {
	n, _ := strconv.Atoi(parameter) // nothing is 0
	switch {
	case n == 0:
		s.style = Cell{}
	case n == 1:
		s.style.Bold = true
	case n == 2:
		s.style.Faint = true
	case n == 39:
		s.style.Colour = 0
	case n >= 30 && n <= 37:
		s.style.Colour = n
	}
}

// top is the first line that the terminal shows.
func (s *Screen) top() int { return max(len(s.lines)-s.rows, 0) }

func (s *Screen) down() {
	s.row++
	if s.row == len(s.lines) {
		s.lines = append(s.lines, nil)
	}
	if over := len(s.lines) - maxLines; over > 0 {
		s.lines = s.lines[over:]
		s.row -= over
		moved := make(map[int]bool, len(s.continued))
		for line := range s.continued {
			moved[line-over] = line >= over
		}
		s.continued = moved
	}
}

// cutLine removes what is right of the cursor.
func (s *Screen) cutLine() {
	if line := s.lines[s.row]; len(line) > s.column {
		s.lines[s.row] = line[:s.column]
	}
}

func (s *Screen) put(r rune) {
	width := runewidth.RuneWidth(r)
	if s.column+width > s.columns {
		s.wraps++
		s.continues(s.row)
		s.down()
		s.column = 0
	}
	line := s.lines[s.row]
	for len(line) < s.column+max(width, 1) {
		line = append(line, Cell{Rune: ' '})
	}
	c := s.style
	c.Rune = r
	line[s.column] = c
	for i := 1; i < width; i++ {
		line[s.column+i] = Cell{}
	}
	s.lines[s.row] = line
	s.column += width
}

// continues remembers that a line continues on the next one.
func (p *page) continues(line int) {
	if p.continued == nil {
		p.continued = make(map[int]bool)
	}
	p.continued[line] = true
}

// Resize changes the width. Lines are wrapped again, as most terminals do. The cursor stays
// at its character.
func (s *Screen) Resize(columns int) {
	old := s.page
	s.columns, s.page = columns, page{}
	for i := 0; i < len(old.lines); i++ {
		var whole []Cell
		cursor := -1
		for {
			if i == old.row {
				cursor = len(whole) + old.column
			}
			whole = append(whole, old.lines[i]...)
			if !old.continued[i] || i+1 == len(old.lines) {
				break
			}
			i++
		}
		for len(whole) > columns {
			cursor = s.addLine(whole[:columns], cursor)
			s.continues(len(s.lines) - 1)
			whole = whole[columns:]
		}
		s.addLine(whole, cursor)
	}
}

// addLine adds a line of a screen that is resized. cursor is where the cursor is in it;
// addLine returns where it is in the rest of the line.
func (s *Screen) addLine(text []Cell, cursor int) int {
	if cursor >= 0 && (cursor < len(text) || len(text) < s.columns) {
		s.row, s.column = len(s.lines), cursor
		cursor = -1
	}
	s.lines = append(s.lines, slices.Clone(text))
	return cursor - len(text)
}

// cells returns a copy of the lines, without empty ones at the end.
func (s *Screen) cells() [][]Cell {
	all := make([][]Cell, len(s.lines))
	last := 0
	for i, line := range s.lines {
		all[i] = slices.Clone(line)
		if len(line) > 0 {
			last = i + 1
		}
	}
	return all[:last]
}

// Text returns the lines of a screen without colours.
func Text(lines [][]Cell) string {
	var b strings.Builder
	for _, line := range lines {
		var text strings.Builder
		for _, c := range line {
			if c.Rune != 0 {
				text.WriteRune(c.Rune)
			}
		}
		b.WriteString(strings.TrimRight(text.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

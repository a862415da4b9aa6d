// Package terminal runs a command on a pseudo-terminal, and knows what a person sees there.
// The tests of the documents and the picture of the README use it.
package terminal

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Cell is one character on a screen.
type Cell struct {
	Rune   rune
	Colour int  // of ECMA-48, 8.3.117: 31 is red, 32 green, 33 yellow; 0 is that of the terminal
	Bold   bool // increased intensity
	Faint  bool // decreased intensity
}

// maxLines bounds what a screen keeps. A program that writes more lost its reader before.
const maxLines = 10_000

// screen is what is to be seen on a terminal, with the lines that have left it at the top.
// It knows the control sequences that toolgate and common programs write (ECMA-48), and
// ignores the others.
type screen struct {
	columns, rows int

	lines       [][]Cell
	row, column int
	style       Cell   // of what is written next
	title       string // set by OSC 0
	rest        []byte // the beginning of a sequence or character
}

func newScreen(columns, rows int) *screen {
	return &screen{columns: columns, rows: rows, lines: make([][]Cell, 1)}
}

// write shows what a program writes.
func (s *screen) write(p []byte) {
	p = append(s.rest, p...)
	for len(p) > 0 {
		n := s.next(p)
		if n == 0 {
			break
		}
		p = p[n:]
	}
	s.rest = append([]byte(nil), p...)
}

// next handles the first character or sequence, and returns its length; 0 if its end is
// not there yet.
func (s *screen) next(p []byte) int {
	switch p[0] {
	case '\x1b':
		return s.escape(p)
	case '\r':
		s.column = 0
	case '\n':
		s.down()
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
func (s *screen) escape(p []byte) int {
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
func (s *screen) control(final byte, parameters string) {
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
	case 'H': // CUP, home only
		s.row, s.column = s.top(), 0
	case 'J': // ED
		if n == 2 {
			s.lines = append(s.lines[:s.top()], make([][]Cell, s.row-s.top()+1)...)
			return
		}
		s.lines = s.lines[:s.row+1]
		s.cutLine()
	case 'K': // EL
		s.cutLine()
	case 'm': // SGR
		for one := range strings.SplitSeq(parameters, ";") {
			s.rendition(one)
		}
	}
}

func (s *screen) rendition(parameter string) {
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
func (s *screen) top() int { return max(len(s.lines)-s.rows, 0) }

func (s *screen) down() {
	s.row++
	if s.row == len(s.lines) {
		s.lines = append(s.lines, nil)
	}
	if over := len(s.lines) - maxLines; over > 0 {
		s.lines = s.lines[over:]
		s.row -= over
	}
}

// cutLine removes what is right of the cursor.
func (s *screen) cutLine() {
	if line := s.lines[s.row]; len(line) > s.column {
		s.lines[s.row] = line[:s.column]
	}
}

func (s *screen) put(r rune) {
	if s.column == s.columns {
		s.down()
		s.column = 0
	}
	line := s.lines[s.row]
	for len(line) <= s.column {
		line = append(line, Cell{Rune: ' '})
	}
	c := s.style
	c.Rune = r
	line[s.column] = c
	s.lines[s.row] = line
	s.column++
}

// cells returns a copy of the lines, without empty ones at the end.
func (s *screen) cells() [][]Cell {
	all := make([][]Cell, len(s.lines))
	last := 0
	for i, line := range s.lines {
		all[i] = append([]Cell(nil), line...)
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
			text.WriteRune(c.Rune)
		}
		b.WriteString(strings.TrimRight(text.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

package terminal

import (
	"strings"
	"testing"
)

func TestScreen(t *testing.T) {
	for name, tt := range map[string]struct {
		written string
		want    string
	}{
		"lines":              {"one\r\ntwo\r\n", "one\ntwo\n"},
		"drawn again":        {"head\r\na\r\nb\r\n\x1b[2A\r\x1b[Jc\r\nd\r\n", "head\nc\nd\n"},
		"drawn beyond":       {"1\r\n2\r\n3\r\n4\r\n\x1b[9A\rtop", "1\n2\ntop\n4\n"},
		"over another":       {"abc\rx", "xbc\n"},
		"the rest of a line": {"abcdef\r\x1b[2C\x1b[K", "ab\n"},
		"colours":            {"\x1b[32mready\x1b[0m \x1b[1;31mno\x1b[m", "ready no\n"},
		"a long line":        {"0123456789ab", "0123456789\nab\n"},
		"exactly one line":   {"0123456789\r\nab", "0123456789\nab\n"},
		"a tab":              {"a\tb", "a       b\n"},
		"a title":            {"\x1b]0;title\aa", "a\n"},
		"cleared":            {"a\r\nb\x1b[H\x1b[2Jc", "c\n"},
		"unknown sequences":  {"\x1b[?25la\x1b(B\x07\x1b7b", "ab\n"},
		"characters":         {"…└é", "…└é\n"},
		"back":               {"ab\b\bc\x1b[1Dd\x1b[1B\r!", "db\n!\n"},
		"a wide character":   {"日本\r\x1b[2Cx", "日x\n"},
		"wide at the end":    {"123456789日", "123456789\n日\n"},
		"a second screen":    {"shell\x1b[?1049h\x1b[Hdrawn\x1b[?1049l$", "shell$\n"},
		"a place":            {"\x1b[2;3Hx", "\n  x\n"},
		"nothing":            {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			whole, parts := NewScreen(10, 3), NewScreen(10, 3)
			_, _ = whole.Write([]byte(tt.written))
			for _, b := range []byte(tt.written) {
				_, _ = parts.Write([]byte{b})
			}
			for how, s := range map[string]*Screen{"at once": whole, "byte by byte": parts} {
				if got := Text(s.cells()); got != tt.want {
					t.Errorf("%s: %q, want %q", how, got, tt.want)
				}
			}
		})
	}
}

func TestScreenColours(t *testing.T) {
	s := NewScreen(80, 24)
	_, _ = s.Write([]byte("a\x1b[32;1mb\x1b[39mc\x1b[0;2md"))
	want := []Cell{{Rune: 'a'}, {Rune: 'b', Colour: 32, Bold: true}, {Rune: 'c', Bold: true}, {Rune: 'd', Faint: true}}
	for i, c := range s.cells()[0] {
		if c != want[i] {
			t.Errorf("cell %d is %+v, want %+v", i, c, want[i])
		}
	}
}

func TestScreenIsBounded(t *testing.T) {
	s := NewScreen(80, 24)
	_, _ = s.Write([]byte(strings.Repeat("x\r\n", 2*maxLines)))
	_, _ = s.Write([]byte("last\x1b[99A\x1b[Jtop"))
	if got := len(s.lines); got > maxLines {
		t.Errorf("%d lines are kept", got)
	}
	if s.row != len(s.lines)-1 || Text(s.cells())[len(Text(s.cells()))-4:] != "top\n" {
		t.Errorf("the cursor is on line %d of %d", s.row, len(s.lines))
	}
}

func TestScreenResized(t *testing.T) {
	s := NewScreen(10, 5)
	_, _ = s.Write([]byte("0123456789ab\r\nshort"))
	for _, tt := range []struct {
		columns int
		want    string
	}{
		{4, "0123\n4567\n89ab\nshor\nt\n"},
		{20, "0123456789ab\nshort\n"},
	} {
		s.Resize(tt.columns)
		if got := s.String(); got != tt.want {
			t.Errorf("%d columns show\n%swant\n%s", tt.columns, got, tt.want)
		}
	}
	_, _ = s.Write([]byte("!"))
	if got, want := s.String(), "0123456789ab\nshort!\n"; got != want || s.Wraps() != 1 {
		t.Errorf("the cursor has moved, or %d lines wrapped, not 1:\n%s", s.Wraps(), got)
	}
}

package screen_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/internal/terminal"
)

var (
	header = []string{"SERVER", "KIND", "STATE", "TOOLS", "REASON"}
	rows   = [][]string{
		{"filesystem", "npx", "ready", "14", ""},
		{"github", "stdio", "failed", "0", "mcp.json:5: mcpServers.github.env.TOKEN: the environment variable GITHUB_TOKEN is not set; set it before starting toolgate"},
		{"日本語の名前", "uvx", "starting (last known)", "2", ""},
	}
)

// A line is never wider than the screen, and the names stay whole where they fit.
func TestColumnsFit(t *testing.T) {
	for _, width := range []int{1, 2, 7, 12, 20, 30, 40, 50, 57, 60, 80, 120, 200} {
		var out bytes.Buffer
		if err := (&screen.Screen{Width: width}).Columns(&out, header, rows); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if w := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("%d columns: a line of %d: %q", width, w, line)
			}
		}
		for _, row := range rows {
			if width >= 60 && !strings.Contains(out.String(), row[0]) {
				t.Errorf("%d columns: %s is cut:\n%s", width, row[0], out.String())
			}
		}
	}
	var pipe bytes.Buffer
	if err := new(screen.Screen).Columns(&pipe, header, rows); err != nil || !strings.Contains(pipe.String(), rows[1][4]) || strings.Contains(pipe.String(), "\x1b") {
		t.Errorf("in a pipe: %v\n%s", err, pipe.String())
	}
}

func TestColumnsOfAnything(t *testing.T) {
	for range 500 {
		columns := 1 + rand.IntN(6)
		var head []string
		for range columns {
			head = append(head, strings.Repeat("H", 1+rand.IntN(8)))
		}
		var all [][]string
		for range rand.IntN(4) {
			var row []string
			for range rand.IntN(columns + 1) {
				row = append(row, strings.Repeat("界x", rand.IntN(40)))
			}
			all = append(all, row)
		}
		width := rand.IntN(200)
		var out bytes.Buffer
		if err := (&screen.Screen{Width: width, Colours: true}).Columns(&out, head, all); err != nil {
			t.Fatal(err)
		}
		if width == 0 {
			continue // nobody knows how wide it is
		}
		for line := range strings.Lines(out.String()) {
			if w := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); w > width {
				t.Fatalf("%d columns: a line of %d: %q", width, w, line)
			}
		}
	}
}

func TestColours(t *testing.T) {
	var out bytes.Buffer
	if err := (&screen.Screen{Colours: true}).Columns(&out, header, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\x1b[32mready\x1b[0m", "\x1b[31mfailed\x1b[0m", "\x1b[33mstarting (last known)\x1b[0m"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q lacks %q", out.String(), want)
		}
	}
	plain := out.String()
	for _, code := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"} {
		plain = strings.ReplaceAll(plain, code, "")
	}
	var without bytes.Buffer
	if err := new(screen.Screen).Columns(&without, header, rows); err != nil || without.String() != plain {
		t.Errorf("colours move the columns:\n%s\n%s", plain, without.String())
	}
}

// Whatever is drawn and written, and however it is divided, the screen shows all lines of
// the log once, in order, and below them what was drawn last.
func TestLive(t *testing.T) {
	for _, width := range []int{80, 120, 200} {
		v := terminal.NewScreen(width, 50)
		live := screen.NewLive(v)
		var log strings.Builder
		for i := range 300 {
			switch rand.IntN(3) {
			case 0:
				line := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", 1+rand.IntN(width-20)))
				log.WriteString(line)
				at := rand.IntN(len(line))
				_, _ = live.Write([]byte(line[:at]))
				_, _ = live.Write([]byte(line[at:]))
			default:
				var out bytes.Buffer
				s := &screen.Screen{Width: width, Colours: i%2 == 0}
				if err := s.Columns(&out, header, rows[:rand.IntN(len(rows)+1)]); err != nil {
					t.Fatal(err)
				}
				live.Draw(out.Bytes())
			}
		}
		live.Draw([]byte("the end\n"))
		live.Keep()
		_, _ = live.Write([]byte("after it\n"))
		if want := log.String() + "the end\nafter it\n"; v.String() != want {
			t.Errorf("%d columns: the screen shows\n%s\nwant\n%s", width, v, want)
		}
	}
}

// A table that is drawn while the terminal changes its width replaces the one before, and
// what is written appears once.
func TestLiveResized(t *testing.T) {
	width := 100
	v := terminal.NewScreen(width, 50)
	live := screen.NewLive(v)
	live.Width = func() int { return width }
	var log strings.Builder
	for i := range 300 {
		if rand.IntN(3) == 0 {
			width = 30 + rand.IntN(120)
			v.Resize(width)
		}
		switch rand.IntN(3) {
		case 0:
			line := fmt.Sprintf("line %d\n", i)
			log.WriteString(line)
			_, _ = live.Write([]byte(line))
		default:
			var out bytes.Buffer
			s := &screen.Screen{Width: width, Colours: i%2 == 0}
			if err := s.Columns(&out, header, rows[:rand.IntN(len(rows)+1)]); err != nil {
				t.Fatal(err)
			}
			live.Draw(out.Bytes())
		}
	}
	live.Draw([]byte("the end\n"))
	if want := log.String() + "the end\n"; v.String() != want {
		t.Errorf("the screen shows\n%s\nwant\n%s", v, want)
	}
}

// A terminal wraps its lines again when it is resized, and the cursor stays where it was.
func TestResize(t *testing.T) {
	v := terminal.NewScreen(10, 50)
	_, _ = v.Write([]byte("0123456789abcdef\nshort\n\nlast"))
	for _, step := range []struct {
		width int
		want  string
	}{
		{10, "0123456789\nabcdef\nshort\n\nlast\n"},
		{20, "0123456789abcdef\nshort\n\nlast\n"},
		{3, "012\n345\n678\n9ab\ncde\nf\nsho\nrt\n\nlas\nt\n"},
		{10, "0123456789\nabcdef\nshort\n\nlast\n"},
	} {
		v.Resize(step.width)
		if v.String() != step.want {
			t.Errorf("%d columns show %q, not %q", step.width, v.String(), step.want)
		}
	}
	_, _ = v.Write([]byte("!"))
	if want := "0123456789\nabcdef\nshort\n\nlast!\n"; v.String() != want {
		t.Errorf("the cursor is elsewhere: %q, not %q", v.String(), want)
	}
}

// A sentence is broken between words, and a word that is longer than the screen stays whole.
func TestWrap(t *testing.T) {
	s := &screen.Screen{Width: 20}
	for text, want := range map[string]string{
		"short":                              "short\n",
		"exactly twenty wide.":               "exactly twenty wide.\n",
		"a sentence of several  words":       "a sentence of\n  several words\n",
		"  an indented sentence":             "  an indented\n    sentence\n",
		"see https://example.org/a/b/c/ now": "see\n  https://example.org/a/b/c/\n  now\n",
		"日本語の名前 日本語の名前":                      "日本語の名前\n  日本語の名前\n",
	} {
		if got := s.Wrap(text); got != want {
			t.Errorf("%q is wrapped as %q, not %q", text, got, want)
		}
		if got := new(screen.Screen).Wrap(text); got != text+"\n" {
			t.Errorf("in a pipe: %q", got)
		}
	}
}

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"0 servers": screen.Count(0, "server"), "1 server": screen.Count(1, "server"), "2 entries": screen.Count(2, "entry"), "1 entry": screen.Count(1, "entry"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// On a narrow screen the name stays, then the reason, then the columns from the left.
func TestColumnsOfNarrowScreens(t *testing.T) {
	table := [][]string{{"github", "stdio", "failed", "0", "not found"}}
	for width, want := range map[int]string{
		45: "SERVER  KIND   STATE   TOOLS  REASON\ngithub  stdio  failed  0      not found\n",
		32: "SERVER  KIND   STATE   REASON\ngithub  stdio  failed  not found\n",
		31: "SERVER  KIND   STATE   REASON\ngithub  stdio  failed  not fou…\n",
		20: "SERVER  REASON\ngithub  not found\n",
		10: "SERVER\ngithub\n",
		4:  "SER…\ngit…\n",
	} {
		var out bytes.Buffer
		if err := (&screen.Screen{Width: width}).Columns(&out, header, table); err != nil || out.String() != want {
			t.Errorf("%d columns: %v\n%s", width, err, out.String())
		}
	}
}

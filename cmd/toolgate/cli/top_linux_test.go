package cli

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/internal/terminal"
)

// The keys of top sort, filter and end it. Whatever ends it, the terminal is as before.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake(), "b": fake("other")}, nil)
	up, _ := h.up(t)
	h.ok(t, "call", "a__echo", "--file", h.file)
	h.ok(t, "call", "b__pid", "--file", h.file)
	h.ok(t, "call", "b__pid", "--file", h.file)

	p := h.onTerminal(t, "top", h.file)
	p.waits(t, `(?s)TOOL .*b__pid .*a__echo .*\n *q quit .*\[c calls\]`)
	if p.echoes(t) || !p.covered() {
		t.Error("keys are shown as they are typed")
	}
	p.types(t, "n")
	p.waits(t, `(?s)a__echo .*b__pid .*\[n tool\]`)
	p.types(t, "/B__q")
	p.waits(t, `(?s)0 of 2 tools with B__q.*/B__q_`)
	p.types(t, "\x7f\r")
	p.waits(t, `(?s)1 of 2 tools with B__\n.*b__pid .*q quit`)
	p.types(t, "\x1b[A\x1b") // an arrow is no key, Esc is
	p.waits(t, `(?s)a__echo .*b__pid .*q quit`)
	p.types(t, "q")
	ends := func(p *typist, what string, want int) {
		t.Helper()
		if code := <-p.ended; code != want || !p.echoes(t) || p.covered() || p.wraps() > 0 {
			t.Errorf("%s: exit code %d, echo %v, %d lines wrap\n%s", what, code, p.echoes(t), p.wraps(), p.sees())
		}
	}
	ends(p, "q", exitOK)

	for what, end := range map[string]func(p *typist){
		"Ctrl-C":  func(p *typist) { p.types(t, "\x03") },
		"SIGTERM": func(p *typist) { _ = p.process.Signal(unix.SIGTERM) },
	} {
		p := h.onTerminal(t, "top", h.file)
		p.waits(t, "q quit")
		end(p)
		ends(p, what, exitOK)
	}
	p = h.onTerminal(t, "top", h.file, "--every", "100ms")
	p.waits(t, "q quit")
	up.stop(t, unix.SIGTERM)
	ends(p, "the end of the gateway", exitUnreachable)
	if !strings.Contains(p.sees(), "toolgate: ") {
		t.Errorf("it does not say why:\n%s", p.sees())
	}
}

// A panic leaves the terminal as it was.
func TestRawTerminalAfterPanic(t *testing.T) {
	t.Parallel()
	person, side, err := terminal.Open(80, terminalHeight)
	if err != nil {
		t.Fatal(err)
	}
	defer person.Close()
	defer side.Close()
	before, err := term.GetState(int(side.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	bad := errors.New("a fault in the program")
	func() {
		defer func() {
			if got := recover(); got != bad { //nolint:errorlint // it is this very value
				t.Errorf("recovered %v", got)
			}
		}()
		_ = screen.Raw(side, side, func() error {
			if now, err := term.GetState(int(side.Fd())); err != nil || *before == *now {
				t.Errorf("the terminal is not raw, %v", err)
			}
			panic(bad)
		})
	}()
	after, err := term.GetState(int(side.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if *before != *after {
		t.Errorf("the terminal was %v and is %v", before, after)
	}
}

func TestTopKeys(t *testing.T) {
	t.Parallel()
	l := &look{Mode: "NORMAL", Tools: []topTool{
		{Tool: "a__one", Calls: 1, Failed: 5, AllTime: 10}, {Tool: "b__two", Calls: 3, Denied: 2, AllTime: 4}, {Tool: "c__three", Calls: 2, Rate: 1.25, Millis: 7, AllTime: 4},
	}}
	for _, tt := range []struct {
		keys, want string
		ends       bool
	}{
		{keys: "", want: "b c a"},
		{keys: "c", want: "a c b"},
		{keys: "cc", want: "b c a"},
		{keys: "n", want: "a b c"},
		{keys: "nn", want: "c b a"},
		{keys: "r", want: "c a b"},
		{keys: "m", want: "c a b"},
		{keys: "f", want: "a b c"},
		{keys: "d", want: "b a c"},
		{keys: "t", want: "a b c"},
		{keys: "tt", want: "b c a"},
		{keys: "x\x1b[B\x1bOP\r", want: "b c a"},
		{keys: "/__t", want: "b c"},
		{keys: "/__tq", want: ""},
		{keys: "/__t\rn", want: "b c"},
		{keys: "/__tq\x08\rn", want: "b c"},
		{keys: "/__t\x15one", want: "a"},
		{keys: "/__t\x1b", want: "b c a"},
		{keys: "/__t\r\x1b", want: "b c a"},
		{keys: "/\x7f", want: "b c a"},
		{keys: "/" + strings.Repeat("t", 200) + strings.Repeat("\x7f", maxFilter), want: "b c a"},
		{keys: "q", ends: true},
		{keys: "/q\x03", ends: true},
		{keys: "\x04", ends: true},
	} {
		var v topView
		ended := false
		for _, key := range screen.Pressed([]byte(tt.keys)) {
			ended = ended || !v.press(key)
		}
		var got []string
		for _, tool := range v.rows(l.Tools) {
			got = append(got, tool.Tool[:1])
		}
		if ended != tt.ends || !ended && strings.Join(got, " ") != tt.want {
			t.Errorf("%q: %v, ended %v, want %q", tt.keys, got, ended, tt.want)
		}
		for _, width := range []int{40, 80, 120} {
			for line := range strings.SplitSeq(string(v.draw(l, &screen.Screen{Width: width, Height: 10})), "\r\n") {
				text := strings.NewReplacer("\x1b[H", "", "\x1b[K", "", "\x1b[J", "", "\x1b[10;1H", "").Replace(line)
				if len([]rune(text)) > width {
					t.Errorf("%q at %d columns: %q", tt.keys, width, text)
				}
			}
		}
	}
}

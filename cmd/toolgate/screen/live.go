package screen

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"sync"

	"github.com/mattn/go-runewidth"
)

// Live is the end of a terminal's screen that is drawn again in its place. Everything
// else that is written to the terminal goes through it as well, and appears above. It is
// safe for concurrent use.
type Live struct {
	out io.Writer
	// Width returns how wide the terminal is now, so that what was drawn on a wider one is
	// erased whole. Nil: lines have stayed as they were drawn. It is set before use.
	Width func() int

	mu    sync.Mutex
	drawn []byte // what is drawn now
	half  []byte // the beginning of a line that was written
}

// NewLive returns the end of the screen of a terminal.
func NewLive(out io.Writer) *Live { return &Live{out: out} }

// Draw replaces what is drawn. The text consists of whole lines, none of them wider than
// the screen, and fewer of them than the screen has: the cursor cannot be moved above it.
func (l *Live) Draw(text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.Equal(text, l.drawn) {
		return
	}
	l.erase()
	l.drawn = append(l.drawn[:0], text...)
	_, _ = l.out.Write(l.drawn) // there is nobody to report an error to
}

// Keep leaves on the screen what is drawn. The next Draw begins below it.
func (l *Live) Keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drawn = l.drawn[:0]
}

// maxHalf bounds a line that has no end yet, in bytes. A longer one is broken.
const maxHalf = 64 << 10

// Write writes whole lines above what is drawn. The rest waits for the end of its line.
func (l *Live) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.half = append(l.half, p...)
	end := bytes.LastIndexByte(l.half, '\n') + 1
	if end == 0 && len(l.half) > maxHalf {
		l.half = append(l.half, '\n')
		end = len(l.half)
	}
	if end == 0 {
		return len(p), nil
	}
	l.erase()
	_, err := l.out.Write(append(l.half[:end:end], l.drawn...))
	l.half = append([]byte(nil), l.half[end:]...)
	return len(p), err
}

// erase removes what is drawn from the screen: it moves the cursor up and erases from
// there (ECMA-48, CUU and ED). mu is held.
func (l *Live) erase() {
	if lines := l.lines(); lines > 0 {
		fmt.Fprintf(l.out, "\x1b[%dA\r\x1b[J", lines)
	}
}

// colour is a sequence that takes no room on the screen.
var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// lines is how many lines of the screen the drawn text takes. A terminal that has become
// narrower has wrapped the longer ones. mu is held.
func (l *Live) lines() int {
	width := 0
	if l.Width != nil {
		width = l.Width()
	}
	count := 0
	for line := range bytes.Lines(l.drawn) {
		count++
		if width > 0 {
			line = colour.ReplaceAll(bytes.TrimSuffix(line, []byte{'\n'}), nil)
			count += max(0, runewidth.StringWidth(string(line))-1) / width
		}
	}
	return count
}

// Wraps tells whether the terminal of this process wraps its lines again when it becomes
// narrower. xterm and the console of Linux cut them instead.
func Wraps() bool { return os.Getenv("XTERM_VERSION") == "" && os.Getenv("TERM") != "linux" }

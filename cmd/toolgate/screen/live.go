package screen

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// Live is the end of a terminal's screen that is drawn again in its place. Everything
// else that is written to the terminal goes through it as well, and appears above. It is
// safe for concurrent use.
type Live struct {
	out io.Writer

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
	if lines := bytes.Count(l.drawn, []byte{'\n'}); lines > 0 {
		fmt.Fprintf(l.out, "\x1b[%dA\r\x1b[J", lines)
	}
}

package elicitation

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Person is who sits at a terminal. It must be used by one goroutine, except for
// Interrupt.
type Person struct {
	in    io.Reader
	say   func(format string, args ...any)
	width func() int // columns of the terminal

	reading chan line // gets the line that is being typed; nil while none is read

	mu    sync.Mutex
	leave chan struct{} // closed when the open question is cancelled; nil without one
	used  bool          // a question was cancelled by an interrupt
}

// New returns the person who types what in returns and sees what say writes, on a terminal
// with that many columns. say escapes what a terminal would interpret.
func New(in io.Reader, say func(format string, args ...any), width func() int) *Person {
	return &Person{in: in, say: say, width: width}
}

// Interrupt cancels the question that is open, the first time. It reports whether it did:
// otherwise the interrupt is meant for the call.
func (p *Person) Interrupt() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leave == nil || p.used {
		return false
	}
	p.used = true
	close(p.leave)
	p.leave = nil
	return true
}

// open begins a question.
func (p *Person) open() (left <-chan struct{}, end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave = make(chan struct{})
	return p.leave, func() {
		p.mu.Lock()
		p.leave = nil
		p.mu.Unlock()
	}
}

// line is what a person typed.
type line struct {
	text string
	err  error
}

// maxLine bounds what a person types at once, in bytes. A terminal has a lower bound.
const maxLine = 64 << 10

var (
	errLeft     = errors.New("the question was cancelled")
	errDeclined = errors.New("the question was declined")
)

// read waits for a line. It returns errDeclined at the end of the input, which is Ctrl-D on
// a terminal, and errLeft when left is closed.
func (p *Person) read(ctx context.Context, left <-chan struct{}) (string, error) {
	if p.reading == nil {
		reading := make(chan line, 1)
		p.reading = reading
		go func() { reading <- readLine(p.in) }() // ends with the line, or with the process
	}
	select {
	case typed := <-p.reading:
		p.reading = nil
		if typed.err == nil {
			return typed.text, nil
		}
		if runtime.GOOS == "windows" { // Ctrl-C ends the input there, too
			select {
			case <-left:
				return "", errLeft
			case <-time.After(200 * time.Millisecond):
			}
		}
		if errors.Is(typed.err, io.EOF) && typed.text == "" {
			return "", errDeclined
		}
		return "", errLeft
	case <-left:
		return "", errLeft
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// readLine reads a line and no further, so that what follows stays for who comes next.
func readLine(in io.Reader) line {
	var typed strings.Builder
	one := make([]byte, 1)
	for typed.Len() < maxLine {
		n, err := in.Read(one)
		switch {
		case n == 1 && one[0] == '\n':
			return line{text: strings.TrimSuffix(typed.String(), "\r")}
		case n == 1:
			typed.WriteByte(one[0])
		case errors.Is(err, os.ErrDeadlineExceeded), err == nil:
		default:
			return line{typed.String(), err}
		}
	}
	return line{typed.String(), errors.New("the line is too long")}
}

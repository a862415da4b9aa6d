package child

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	defaultRingLines = 200
	defaultRingBytes = 64 << 10

	// ringLineBytes bounds one line: enough for any message, but one endless line does
	// not push out all others.
	ringLineBytes = 4 << 10
)

// Lines keeps the last lines that are written to it, for people: a number of lines and
// of bytes, each line cut after 4 KiB. It is an io.Writer that never fails and never
// blocks, so that a flood of output costs only a copy.
//
// Lines are made safe to print: control sequences, control characters and invalid UTF-8
// are removed, because an untrusted program writes them and they end up on a terminal
// or in a log.
//
// The zero value keeps nothing. All methods may be called concurrently.
type Lines struct {
	maxLines, maxBytes int

	mu    sync.Mutex
	lines []string // ring of maxLines entries, allocated with the first line
	first int      // index of the oldest line
	count int      // lines kept
	bytes int      // bytes kept
	half  halfLine // the unfinished line of Write
	ended int      // finished lines, including dropped ones
}

// halfLine is the beginning of an unfinished line.
type halfLine struct {
	text []byte
	cut  bool // the line is longer than text
}

// NewLines returns Lines that keep at most maxLines lines and maxBytes bytes. Zero or
// less stands for 200 lines and 64 KiB.
func NewLines(maxLines, maxBytes int) *Lines {
	if maxLines <= 0 {
		maxLines = defaultRingLines
	}
	if maxBytes <= 0 {
		maxBytes = defaultRingBytes
	}
	return &Lines{maxLines: maxLines, maxBytes: maxBytes}
}

// Write adds p. It always returns len(p), nil.
func (r *Lines) Write(p []byte) (int, error) { return r.write(&r.half, p) }

// Stream returns a writer for a further stream of the same program, whose lines are
// kept among the others. It may be used concurrently, and never fails.
func (r *Lines) Stream() io.Writer { return &stream{of: r} }

// stream is a further stream, with an unfinished line of its own.
type stream struct {
	of   *Lines
	half halfLine // guarded by the mutex of the Lines
}

// Write implements [io.Writer].
func (s *stream) Write(p []byte) (int, error) { return s.of.write(&s.half, p) }

// write adds p to the stream of half.
func (r *Lines) write(half *halfLine, p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	written := len(p)
	for {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		keep := min(len(line), min(ringLineBytes, r.maxBytes)-len(half.text))
		half.text = append(half.text, line[:keep]...)
		half.cut = half.cut || keep < len(line)
		if !ended {
			return written, nil
		}
		r.end(half)
		p = rest
	}
}

// end finishes the line of half; mu is held.
func (r *Lines) end(half *halfLine) {
	r.push(half.line())
	r.ended++
	half.text, half.cut = half.text[:0], false
}

// line returns the line so far, safe to print.
func (h *halfLine) line() string { return Printable(h.text, h.cut) }

// End finishes the unfinished line of Write.
func (r *Lines) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.half.text) > 0 {
		r.end(&r.half)
	}
}

// Lines returns a copy of the kept lines, oldest first and the unfinished one last. It
// is nil when there are none.
func (r *Lines) Lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for i := range r.count {
		all = append(all, r.lines[(r.first+i)%len(r.lines)])
	}
	if len(r.half.text) > 0 {
		if len(all) == r.maxLines {
			all = all[1:]
		}
		all = append(all, r.half.line())
	}
	return all
}

// Tail returns the kept finished lines, oldest first, and the total number of finished
// lines.
func (r *Lines) Tail() (lines []string, ended int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines = make([]string, r.count)
	for i := range lines {
		lines[i] = r.lines[(r.first+i)%len(r.lines)]
	}
	return lines, r.ended
}

// Last returns the newest line that is not blank, or "".
func (r *Lines) Last() string {
	lines := r.Lines()
	for _, line := range slices.Backward(lines) {
		if strings.TrimSpace(line) != "" {
			return line
		}
	}
	return ""
}

// push adds a line and drops the oldest ones if necessary; r.mu is held.
func (r *Lines) push(line string) {
	if r.maxLines <= 0 {
		return
	}
	if r.lines == nil {
		r.lines = make([]string, r.maxLines)
	}
	for r.count > 0 && (r.count == r.maxLines || r.bytes+len(line) > r.maxBytes) {
		r.bytes -= len(r.lines[r.first])
		r.lines[r.first] = ""
		r.first = (r.first + 1) % len(r.lines)
		r.count--
	}
	r.lines[(r.first+r.count)%len(r.lines)] = line
	r.count++
	r.bytes += len(line)
}

// Printable removes from text what could move a cursor, change a title or break a line:
// escape sequences, control characters other than tab, and invalid UTF-8. The result is
// never longer, except for an ellipsis where cut says that the line went on.
func Printable(text []byte, cut bool) string {
	var b strings.Builder
	b.Grow(len(text) + len("…"))
	for len(text) > 0 {
		if n := controlSequence(text); n > 0 {
			text = text[n:]
			continue
		}
		c, n := utf8.DecodeRune(text)
		if c == '\t' || (unicode.IsPrint(c) && (c != utf8.RuneError || n > 1)) {
			b.Write(text[:n])
		}
		text = text[n:]
	}
	if cut {
		b.WriteString("…")
	}
	return b.String()
}

// controlSequence returns the length of the ECMA-48 control sequence (colours, cursor
// moves) that text begins with, or 0.
func controlSequence(text []byte) int {
	if len(text) < 2 || text[0] != 0x1b || text[1] != '[' {
		return 0
	}
	for i := 2; i < len(text); i++ {
		switch c := text[i]; {
		case c >= 0x40 && c <= 0x7e:
			return i + 1
		case c < 0x20 || c > 0x3f:
			return i // not a sequence after all: only its beginning is removed
		}
	}
	return len(text)
}

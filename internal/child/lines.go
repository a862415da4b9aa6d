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

	// ringLineBytes is what is kept of one line: enough for any message, and
	// little enough that one endless line does not push out all others.
	ringLineBytes = 4 << 10
)

// Lines keeps the last lines of what is written to it, for a person to
// read: a number of lines and of bytes, each line cut after 4 KiB. It is an
// io.Writer that never fails and waits for nothing but its own lock, so a flood
// costs its reader a copy and no memory.
//
// Lines are made safe to print: terminal control sequences, control characters
// and invalid UTF-8 are taken out, for they come from a program that is not
// trusted and end on a terminal or in a log.
//
// The zero value keeps nothing. All methods may be called concurrently.
type Lines struct {
	maxLines, maxBytes int

	mu    sync.Mutex
	lines []string // a circle of maxLines places, made by the first line
	first int      // place of the oldest line
	count int      // lines held
	bytes int      // bytes held
	half  halfLine // what Write has begun
	ended int      // lines that have ended, those that are no longer held included
}

// halfLine is the beginning of a line that is being written.
type halfLine struct {
	text []byte
	cut  bool // more was written than text holds
}

// NewLines returns Lines that keep at most maxLines lines and maxBytes bytes.
// Zero or less means the default of 200 lines and 64 KiB.
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
// kept among the others. It may be written to concurrently, and never fails.
func (r *Lines) Stream() io.Writer { return &stream{of: r} }

// stream is a further stream, with a half line of its own.
type stream struct {
	of   *Lines
	half halfLine // guarded by the mutex of the Lines
}

// Write implements [io.Writer].
func (s *stream) Write(p []byte) (int, error) { return s.of.write(&s.half, p) }

// write adds p to the stream that half belongs to.
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

// end makes a line of half; mu is held.
func (r *Lines) end(half *halfLine) {
	r.push(half.line())
	r.ended++
	half.text, half.cut = half.text[:0], false
}

// line returns what was written of the line, safe to print.
func (h *halfLine) line() string { return Printable(h.text, h.cut) }

// End makes a line of what was written to Write since the last one ended.
func (r *Lines) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.half.text) > 0 {
		r.end(&r.half)
	}
}

// Lines returns a copy of the lines held, oldest first and the unfinished one
// last. It is nil when there are none.
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

// Tail returns the lines held that have ended, oldest first, and how many have
// ended since the beginning.
func (r *Lines) Tail() (lines []string, ended int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines = make([]string, r.count)
	for i := range lines {
		lines[i] = r.lines[(r.first+i)%len(r.lines)]
	}
	return lines, r.ended
}

// Last returns the newest line that has more than white space in it, or "".
func (r *Lines) Last() string {
	lines := r.Lines()
	for _, line := range slices.Backward(lines) {
		if strings.TrimSpace(line) != "" {
			return line
		}
	}
	return ""
}

// push adds a line in the place of the oldest ones. r.mu is held.
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

// Printable returns text without what could move a cursor, change a title or
// break a line: escape sequences, control characters other than tab, and bytes
// that are not UTF-8. It never returns more bytes than it was given, but for an
// ellipsis where cut says that the line went on.
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

// controlSequence returns the length of the ECMA-48 control sequence (colours,
// cursor moves) that text begins with, or 0.
func controlSequence(text []byte) int {
	if len(text) < 2 || text[0] != 0x1b || text[1] != '[' {
		return 0
	}
	for i := 2; i < len(text); i++ {
		switch c := text[i]; {
		case c >= 0x40 && c <= 0x7e:
			return i + 1
		case c < 0x20 || c > 0x3f:
			return i // not one after all: only its beginning goes
		}
	}
	return len(text)
}

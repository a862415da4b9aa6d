package native

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"unicode"
)

const (
	ringLines = 40
	lineBytes = 1 << 10
)

// lineRing keeps the last lines that are written to it, for a person: each cut
// after lineBytes and without what a terminal would act on. It is safe for
// concurrent use and its writers are never held up.
type lineRing struct {
	mu    sync.Mutex
	lines []string
	ended int // lines that there have been
	own   lineWriter
}

func newLineRing() *lineRing {
	r := &lineRing{}
	r.own.ring = r
	return r
}

// lineWriter writes one stream into a ring; its half of a line is its own.
type lineWriter struct {
	ring *lineRing
	half []byte // of a line that has not ended
}

// writer returns a writer for a further stream.
func (r *lineRing) writer() *lineWriter { return &lineWriter{ring: r} }

// Write implements [io.Writer] and does not fail.
func (r *lineRing) Write(p []byte) (int, error) { return r.own.Write(p) }

// Write implements [io.Writer] and does not fail.
func (w *lineWriter) Write(p []byte) (int, error) {
	r := w.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	written := len(p)
	for {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		w.half = append(w.half, line[:min(len(line), lineBytes-len(w.half))]...)
		if !ended {
			return written, nil
		}
		if text := printable(w.half); text != "" {
			if len(r.lines) == ringLines {
				r.lines = slices.Delete(r.lines, 0, 1)
			}
			r.lines = append(r.lines, text)
			r.ended++
		}
		w.half, p = w.half[:0], rest
	}
}

// Lines returns the lines, oldest first.
func (r *lineRing) Lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Clone(r.lines)
	if text := printable(r.own.half); text != "" {
		out = append(out, text)
	}
	return out
}

// Last returns the newest line, empty when there is none.
func (r *lineRing) Last() string {
	if lines := r.Lines(); len(lines) > 0 {
		return lines[len(lines)-1]
	}
	return ""
}

func printable(line []byte) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if c == unicode.ReplacementChar || !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, string(line)))
}

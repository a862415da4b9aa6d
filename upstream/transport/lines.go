package transport

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
)

// skipHeadBytes is how much of a skipped line is shown to its callback.
const skipHeadBytes = 200

// lineReader reads the messages of the MCP stdio transport: one JSON object (or
// a batch, an array) per line. A server that prints something else to its
// standard output loses that line and nothing more.
//
//   - A line ends with LF; a CR before it is dropped.
//   - A byte order mark before a line is dropped (RFC 8259 section 8.1).
//   - A line of white space is skipped silently.
//   - A line whose first character after white space is neither { nor [ is
//     noise, whatever its length, and is never held.
//   - A line longer than the limit is skipped to its end without being held.
//   - What is left at the end of the stream without an LF is noise.
//
// Whether a line is valid JSON is for its receiver to check. next is for one
// goroutine; the counters may be read at any time.
type lineReader struct {
	scan    lineScanner
	onNoise func(head []byte)
	// onTooLong, if set before the first next, is called as onNoise is, for
	// each line that is too long: its id may be within its head.
	onTooLong func(head []byte)

	noise   atomic.Uint64 // noise and unfinished lines so far
	tooLong atomic.Uint64 // over-long lines so far
}

// newLineReader returns a reader of lines of at most maxLine bytes, their end
// not counted; with a maxLine of zero or less every line is too long. onNoise,
// if not nil, is called from within next with the first 200 bytes of each line
// of noise, which are valid during the call only.
func newLineReader(src io.Reader, maxLine int, onNoise func(head []byte)) *lineReader {
	return &lineReader{scan: newLineScanner(src, maxLine, false, isNoise), onNoise: onNoise}
}

// byteOrderMark is that of UTF-8, which some runtimes write before what they say.
var byteOrderMark = []byte("\xef\xbb\xbf")

// next returns the next line that can be a message, without its end. The slice
// belongs to the caller and is exactly as large as the line. The error is
// io.EOF at the end of the stream, or what reading it returned; it stays.
func (r *lineReader) next() ([]byte, error) {
	for {
		fate, err := r.scan.next()
		if err != nil {
			return nil, err
		}
		head := r.scan.head()
		if fate == lineWhole || fate == lineHalf {
			text := head
			if isBlank(text) && len(text) < r.scan.size {
				text = r.scan.from(0) // of so much white space only the whole line tells
			}
			if isBlank(text) {
				continue
			}
			if fate == lineWhole && !isNoise(text) {
				return bytes.TrimPrefix(r.scan.from(0), byteOrderMark), nil
			}
		}
		count, tell := &r.noise, r.onNoise
		if fate == lineTooLong {
			count, tell = &r.tooLong, r.onTooLong
		}
		count.Add(1)
		if tell != nil {
			tell(head[:min(len(head), skipHeadBytes)])
		}
	}
}

// isNoise reports whether a line that begins with head is surely no JSON-RPC
// message. Of white space alone that cannot be said.
func isNoise(head []byte) bool {
	first := unmarked(head)
	return len(first) > 0 && first[0] != '{' && first[0] != '['
}

// unmarked returns a line without the byte order mark and the white space before it.
func unmarked(line []byte) []byte {
	if bytes.HasPrefix(byteOrderMark, line) { // or with the beginning of one alone
		return nil
	}
	return bytes.TrimLeft(bytes.TrimPrefix(line, byteOrderMark), " \t\r")
}

// isBlank reports whether line is white space only.
func isBlank(line []byte) bool {
	return len(unmarked(line)) == 0
}

// lineFate says what a lineScanner has found.
type lineFate uint8

const (
	lineWhole   lineFate = iota + 1 // a complete line
	lineTooLong                     // more than max bytes of a line; the rest is skipped
	lineDropped                     // the beginning of a line nobody wants; the rest is skipped
	lineHalf                        // the last line, without an end
)

const (
	// restBytes is the buffer of a stream on which nothing large is under way:
	// many streams are idle for most of their life.
	restBytes = 1 << 10
	// chunkBytes is the buffer for the rest of a line that outgrew restBytes.
	chunkBytes = 64 << 10
)

var (
	restBuffers  = sync.Pool{New: func() any { return new([restBytes]byte) }}
	chunkBuffers = sync.Pool{New: func() any { return new([chunkBytes]byte) }}
)

// lineScanner splits a stream into lines and holds no more than one of them,
// and of that no more than max bytes. A line that outgrows the buffer leaves
// the full buffer behind as a segment and goes on in a new one, so that every
// byte is copied once at most: into the slice that from makes.
type lineScanner struct {
	src    io.Reader
	max    int                    // of one line, its end not counted; may be changed between calls
	crEnds bool                   // a CR ends a line too, as does CR LF; else a CR before LF is dropped
	drop   func(head []byte) bool // asked about long lines: nobody wants it

	rest, chunk int // buffer sizes
	buf         []byte
	start, end  int // buf[start:end] was read and not yet handed out
	scanned     int // buf[start:scanned] holds no line end

	// buf[scanned:lf] holds no LF, and buf[lf] is one if lfFound. It is kept so
	// that a stream of lines that end with CR is not searched for LF each time.
	lf      int
	lfFound bool

	segments [][]byte // full buffers of the current line, in order
	tail     []byte   // the last part of the current line
	size     int      // bytes of the current line
	held     int      // bytes in segments
	skipping bool     // the current line is thrown away up to its end
	afterCR  bool     // an LF now would belong to the CR before it
	err      error    // what src returned last
}

func newLineScanner(src io.Reader, maxLine int, crEnds bool, drop func([]byte) bool) lineScanner {
	return lineScanner{src: src, max: maxLine, crEnds: crEnds, drop: drop, rest: restBytes, chunk: chunkBytes}
}

// next finds the next line and says what became of it. head and from give its
// bytes until the next call. Once there is an error it stays.
func (s *lineScanner) next() (lineFate, error) {
	s.forget()
	for {
		if at, found := s.findEnd(); found {
			s.tail = s.buf[s.start:at]
			s.afterCR = s.buf[at] == '\r'
			s.start, s.scanned = at+1, at+1
			if s.skipping {
				s.skipping = false
				continue
			}
			s.size = s.held + len(s.tail)
			if !s.crEnds && s.endsWithCR() {
				s.size--
			}
			return s.judge(), nil
		}
		if s.skipping {
			s.start = s.end
		} else if fate := s.overflows(); fate != 0 {
			s.skipping = true
			return fate, nil
		}
		if s.err != nil {
			s.tail = s.buf[s.start:s.end]
			s.size = s.held + len(s.tail)
			s.start = s.end
			if s.size > 0 {
				return lineHalf, nil
			}
			s.release()
			return 0, s.err
		}
		if fate := s.makeRoom(); fate != 0 {
			s.skipping = true
			return fate, nil
		}
		s.read()
	}
}

// head returns the first bytes of the line: all of a short one, at least
// restBytes of a long one.
func (s *lineScanner) head() []byte {
	if len(s.segments) > 0 {
		return s.segments[0][:min(len(s.segments[0]), s.size)]
	}
	return s.tail[:min(len(s.tail), s.size)]
}

// from returns a copy of the line without its first off bytes, exactly as large
// as it must be.
func (s *lineScanner) from(off int) []byte {
	return s.appendTo(make([]byte, 0, s.size-off), off)
}

// appendTo appends the line without its first off bytes to dst.
func (s *lineScanner) appendTo(dst []byte, off int) []byte {
	left := s.size
	for _, segment := range s.segments {
		segment = segment[:min(len(segment), left)]
		left -= len(segment)
		skip := min(off, len(segment))
		off -= skip
		dst = append(dst, segment[skip:]...)
	}
	return append(dst, s.tail[min(off, left):left]...)
}

// release gives back all buffers. The scanner must not be used after that.
func (s *lineScanner) release() {
	s.forget()
	giveBuffer(s.buf)
	s.setBuffer(nil)
}

// forget gives back what the last line was held in.
func (s *lineScanner) forget() {
	for i, segment := range s.segments {
		giveBuffer(segment)
		s.segments[i] = nil
	}
	s.segments, s.held = s.segments[:0], 0
	s.tail, s.size = nil, 0
}

// findEnd returns where the current line ends in the buffer.
func (s *lineScanner) findEnd() (int, bool) {
	if s.afterCR && s.scanned < s.end {
		s.afterCR = false
		if s.buf[s.scanned] == '\n' {
			s.start, s.scanned = s.start+1, s.scanned+1
		}
	}
	if from := max(s.lf, s.scanned); !s.lfFound || s.lf < s.scanned {
		i := bytes.IndexByte(s.buf[from:s.end], '\n')
		if s.lfFound = i >= 0; s.lfFound {
			s.lf = from + i
		} else {
			s.lf = s.end
		}
	}
	if s.crEnds {
		if i := bytes.IndexByte(s.buf[s.scanned:s.lf], '\r'); i >= 0 {
			return s.scanned + i, true
		}
	}
	s.scanned = s.lf
	return s.lf, s.lfFound
}

// endsWithCR reports whether the last byte held of the current line is a CR.
func (s *lineScanner) endsWithCR() bool {
	if len(s.tail) > 0 {
		return s.tail[len(s.tail)-1] == '\r'
	}
	if n := len(s.segments); n > 0 {
		last := s.segments[n-1]
		return last[len(last)-1] == '\r'
	}
	return false
}

// judge returns the fate of a complete line.
func (s *lineScanner) judge() lineFate {
	if s.size <= s.max {
		return lineWhole
	}
	if s.drop(s.head()) {
		return lineDropped
	}
	return lineTooLong
}

// overflows returns the fate of an unfinished line that is too long already,
// or 0.
func (s *lineScanner) overflows() lineFate {
	s.tail = s.buf[s.start:s.end]
	s.size = s.held + len(s.tail)
	over := s.size - s.max
	if !s.crEnds && s.endsWithCR() {
		over-- // it may be the end
	}
	if over <= 0 {
		return 0
	}
	return s.judge()
}

// makeRoom makes the buffer ready to be read into. Where that would mean to
// hold more of a line that nobody wants, it returns lineDropped instead.
func (s *lineScanner) makeRoom() lineFate {
	switch {
	case s.buf == nil:
		s.setBuffer(takeBuffer(s.rest))
	case s.start == s.end && s.held == 0 && len(s.buf) != s.rest:
		giveBuffer(s.buf)
		s.setBuffer(takeBuffer(s.rest))
	case s.start == s.end:
		s.setBuffer(s.buf)
	case s.end < len(s.buf):
	case s.start > 0:
		n := copy(s.buf, s.buf[s.start:s.end])
		s.setBuffer(s.buf)
		s.end, s.scanned, s.lf = n, n, n
	default:
		if s.held == 0 && s.drop(s.buf) {
			s.tail, s.size = s.buf, len(s.buf)
			return lineDropped
		}
		s.segments = append(s.segments, s.buf)
		s.held += len(s.buf)
		s.setBuffer(takeBuffer(s.chunk))
	}
	return 0
}

// setBuffer starts anew with buf, of which nothing is read yet.
func (s *lineScanner) setBuffer(buf []byte) {
	s.buf = buf
	s.start, s.end, s.scanned, s.lf, s.lfFound = 0, 0, 0, 0, false
}

// maxEmptyReads is how often in a row a reader may return nothing at all.
const maxEmptyReads = 100

// read reads once into the room behind end.
func (s *lineScanner) read() {
	for range maxEmptyReads {
		n, err := s.src.Read(s.buf[s.end:])
		s.end += n
		s.err = err
		if n > 0 || err != nil {
			return
		}
	}
	s.err = io.ErrNoProgress
}

func takeBuffer(size int) []byte {
	switch size {
	case restBytes:
		return restBuffers.Get().(*[restBytes]byte)[:]
	case chunkBytes:
		return chunkBuffers.Get().(*[chunkBytes]byte)[:]
	}
	return make([]byte, size)
}

func giveBuffer(buf []byte) {
	switch len(buf) {
	case restBytes:
		restBuffers.Put((*[restBytes]byte)(buf))
	case chunkBytes:
		chunkBuffers.Put((*[chunkBytes]byte)(buf))
	}
}

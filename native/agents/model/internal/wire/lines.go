package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lines reads server-sent events (HTML section 9.2), as far as the wire formats use them:
// the data of each event. The names of events are in their data too.
type lines struct {
	in   *bufio.Reader
	data []byte
}

func newLines(in io.Reader) *lines { return &lines{in: bufio.NewReader(in)} }

// peek returns the first byte that is no space, and leaves it. It is 0 at the end.
func (l *lines) peek() (byte, error) {
	for {
		b, err := l.in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return 0, nil
		case err != nil:
			return 0, err
		case b != ' ' && b != '\t' && b != '\r' && b != '\n':
			return b, l.in.UnreadByte()
		}
	}
}

// next returns the data of the next event, which is valid until it is called again, and
// [io.EOF] after the last one. An event that the stream ends in is returned as well: some
// servers leave out the empty line at the end.
func (l *lines) next() ([]byte, error) {
	l.data = l.data[:0]
	has := false
	for {
		line, err := l.line()
		if errors.Is(err, io.EOF) && has {
			return l.data, nil
		}
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if has {
				return l.data, nil
			}
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue // a comment, or a field without a meaning here
		}
		if has {
			l.data = append(l.data, '\n')
		}
		has = true
		l.data = append(l.data, bytes.TrimPrefix(value, []byte(" "))...)
	}
}

// line returns the next line without its end. It is valid until the next one is read, and
// as long as the stream's limit allows.
func (l *lines) line() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = l.in.ReadSlice('\n')
			long = append(long, line...)
		}
		line = long
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil
	}
	return bytes.TrimRight(line, "\r\n"), err
}

package http1

import (
	"errors"
	"io"
)

// errChunk is the error of a chunk that does not end where it says.
var errChunk = errors.New("malformed chunked encoding")

// maxChunkDigits is the length of the largest size of a chunk that is plain.
const maxChunkDigits = 15

// nextChunk reads up to the data of the next chunk and sets left to its size, which is 0 after
// the last one. If the beginning of the chunk is not plain, rest reads it again.
func (b *body) nextChunk() (rest io.Reader, plain bool, err error) {
	for {
		done, plain := b.parseChunk()
		if done {
			return nil, true, nil
		}
		if !plain {
			if b.begun && !startsLike(b.conn.unread(), "\r\n") {
				return nil, false, errChunk
			}
			return b.conn.remaining(b.begun), false, nil
		}
		if err := b.conn.fill(); err != nil {
			return nil, false, err
		}
	}
}

// parseChunk takes the beginning of the next chunk from what was received, if all of it is
// there. Otherwise plain tells whether it is plain so far.
func (b *body) parseChunk() (done, plain bool) {
	in := b.conn.unread()
	at := 0
	if b.begun {
		if !startsLike(in, "\r\n") {
			return false, false
		}
		at = 2
	}
	size, digits := int64(0), 0
	for ; at < len(in) && digits <= maxChunkDigits; at++ {
		digit, ok := hex(in[at])
		if !ok {
			break
		}
		size = size<<4 | digit
		digits++
	}
	switch {
	case at >= len(in):
		return false, digits <= maxChunkDigits
	case digits == 0 || digits > maxChunkDigits || !startsLike(in[at:], "\r\n"):
		return false, false
	}
	at += 2
	if size == 0 { // no trailer
		if at < len(in) && !startsLike(in[at:], "\r\n") {
			return false, false
		}
		at += 2
	}
	if at > len(in) {
		return false, true
	}
	b.conn.r += at
	b.left, b.begun = size, true
	return true, true
}

// startsLike tells whether b begins with a text, or the text with b.
func startsLike(b []byte, text string) bool {
	n := min(len(b), len(text))
	return string(b[:n]) == text[:n]
}

// hex returns the value of a hexadecimal digit.
func hex(c byte) (int64, bool) {
	switch {
	case '0' <= c && c <= '9':
		return int64(c - '0'), true
	case 'a' <= c && c <= 'f':
		return int64(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return int64(c-'A') + 10, true
	}
	return 0, false
}

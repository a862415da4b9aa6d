package frames

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxBody bounds the body of a frame, in bytes. Larger questions go another way.
const MaxBody = 2 << 20

// KeySize is the size of a key: of both halves.
const KeySize = 64

// maxOpen is how many questions of a connection may be open.
const maxOpen = 1024

// kind is what a frame is.
type kind byte

const (
	question kind = iota + 1
	answer
	failure // instead of an answer
	cancel  // of a question, without an answer
)

// frame is one message.
type frame struct {
	kind kind
	id   uint64
	body []byte
}

// headSize is the size of a frame without its body, and rest that of what its length does
// not count.
const headSize, lengthSize = 13, 4

var errFrame = errors.New("what came is not a frame")

// append appends the frame to a buffer.
func (f *frame) append(to []byte) []byte {
	to = binary.BigEndian.AppendUint32(to, uint32(headSize-lengthSize+len(f.body))) //nolint:gosec // a body is at most MaxBody
	to = binary.BigEndian.AppendUint64(append(to, byte(f.kind)), f.id)
	return append(to, f.body...)
}

// read reads the next frame. Its body is the caller's.
func read(from *bufio.Reader) (f frame, err error) {
	var head [headSize]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return f, err
	}
	size := binary.BigEndian.Uint32(head[:])
	f.kind, f.id = kind(head[lengthSize]), binary.BigEndian.Uint64(head[lengthSize+1:])
	switch {
	case size < headSize-lengthSize || size > headSize-lengthSize+MaxBody:
		return f, fmt.Errorf("%w: it is %d bytes long", errFrame, size)
	case f.kind < question || f.kind > cancel:
		return f, fmt.Errorf("%w: its kind is %d", errFrame, f.kind)
	}
	if n := int(size) - (headSize - lengthSize); n > 0 {
		f.body = make([]byte, n)
		_, err = io.ReadFull(from, f.body)
	}
	return f, err
}

package raw

import (
	"bytes"
	"fmt"
	"strconv"
)

const (
	// maxHead bounds the head of a message, in bytes.
	maxHead = 64 << 10
	// maxBody bounds its body.
	maxBody = 64 << 20
)

// Frame is one HTTP message. Its bytes are those of a buffer, and valid as long as that is.
type Frame struct {
	Head []byte // the start line and the fields, without the empty line
	Body []byte // without the framing of chunks
}

// Field returns the value of the first field with a name, which is in lower case; nil when there
// is none.
func (f *Frame) Field(name string) []byte {
	for line := range bytes.Lines(f.Head) {
		if len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], []byte(name)) {
			return bytes.TrimSpace(line[len(name)+1:])
		}
	}
	return nil
}

// Status returns the status of a response; 0 for what is none.
func (f *Frame) Status() int {
	rest, ok := bytes.CutPrefix(f.Head, []byte("HTTP/1.1 "))
	if !ok || len(rest) < 3 {
		return 0
	}
	status, err := strconv.Atoi(string(rest[:3]))
	if err != nil {
		return 0
	}
	return status
}

var (
	errHead = fmt.Errorf("the head of a message has more than %d bytes", maxHead)
	errBody = fmt.Errorf("the body of a message has more than %d bytes", maxBody)
)

// parse reads the first message of b. size is 0 as long as it is not whole. The body of a chunked
// message replaces the framing in b once it is whole.
func parse(b []byte) (f Frame, size int, err error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	switch {
	case end > maxHead || end < 0 && len(b) > maxHead:
		return f, 0, errHead
	case end < 0:
		return f, 0, nil
	}
	f.Head = b[:end]
	rest := b[end+4:]
	if value := f.Field("content-length"); value != nil {
		n, err := strconv.Atoi(string(value))
		if err != nil || n < 0 || n > maxBody {
			return f, 0, fmt.Errorf("the length %q of a body", value)
		}
		if len(rest) < n {
			return f, 0, nil
		}
		f.Body = rest[:n]
		return f, end + 4 + n, nil
	}
	if f.Field("transfer-encoding") == nil {
		return f, end + 4, nil
	}
	n, err := chunked(rest)
	if n == 0 || err != nil {
		return f, 0, err
	}
	f.Body = join(rest[:n])
	return f, end + 4 + n, nil
}

// chunked returns the length of a chunked body with its framing (RFC 9112 section 7.1); 0 as long
// as it is not whole. There are no trailers.
func chunked(b []byte) (int, error) {
	for at := 0; ; {
		line := bytes.IndexByte(b[at:], '\n')
		if line < 0 {
			return 0, nil
		}
		size, err := strconv.ParseUint(string(bytes.TrimSpace(b[at:at+line])), 16, 32)
		if err != nil {
			return 0, fmt.Errorf("the size of a chunk: %w", err)
		}
		at += line + 1 + int(size) + 2
		if at > maxBody {
			return 0, errBody
		}
		if at > len(b) {
			return 0, nil
		}
		if size == 0 {
			return at, nil
		}
	}
}

// join moves the chunks of a whole body together, and returns them.
func join(b []byte) []byte {
	to := 0
	for at := 0; ; {
		line := bytes.IndexByte(b[at:], '\n')
		size, _ := strconv.ParseUint(string(bytes.TrimSpace(b[at:at+line])), 16, 32) // chunked has read it
		if size == 0 {
			return b[:to]
		}
		at += line + 1
		to += copy(b[to:], b[at:at+int(size)])
		at += int(size) + 2
	}
}

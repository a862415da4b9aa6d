package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"
)

// responseHeaders are the headers of every response, ":status: 200" and "content-type:
// application/grpc", in the form of HPACK that adds nothing to the table.
var responseHeaders = append([]byte{0x88, 0x0f, 0x10, 16}, "application/grpc"...)

var errEnded = errors.New("the request has ended")

// answer writes the response to a request: its messages and a status.
func (s *stream) answer(request []byte) {
	var held []byte // the latest message, which is sent together with what follows it
	holding := false
	flush := func() {
		if holding {
			s.send(held, nil)
			held, holding = nil, false
		}
	}
	c, text := s.conn.service.answer(s.ctx, s.path, request, func(message []byte) {
		s.sending.Lock()
		defer s.sending.Unlock()
		if s.path == pathCall && !isResult(message) {
			s.send(message, nil)
			return
		}
		flush()
		held, holding = message, true
	})
	s.sending.Lock()
	defer s.sending.Unlock()
	end := trailers(c, text)
	if holding {
		s.send(held, end)
	} else {
		s.close(end)
	}
	s.forget()
}

// isResult reports whether an event of a call is its last.
func isResult(event []byte) bool { return len(event) > 0 && event[0] == 3<<3|bytesField }

// finish ends a request without a message.
func (s *stream) finish(c code, text string) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.close(trailers(c, text))
	s.forget()
}

// forget removes the stream from the open ones.
func (s *stream) forget() {
	s.end()
	s.conn.mu.Lock()
	delete(s.conn.streams, s.id)
	s.conn.mu.Unlock()
}

// trailers returns a status as gRPC writes it.
func trailers(c code, text string) []byte {
	field := func(dst []byte, name, value string) []byte {
		dst = append(append(dst, 0, byte(len(name))), name...) // of few bytes
		return append(append(dst, byte(len(value))), value...) // cut below
	}
	out := field(nil, "grpc-status", strconv.Itoa(int(c)))
	if text == "" {
		return out
	}
	const most = 120
	escaped := make([]byte, 0, most+3)
	for i := 0; i < len(text) && len(escaped) < most-2; i++ {
		if b := text[i]; b >= ' ' && b <= '~' && b != '%' {
			escaped = append(escaped, b)
		} else {
			escaped = append(escaped, '%', "0123456789ABCDEF"[b>>4], "0123456789ABCDEF"[b&15])
		}
	}
	return field(out, "grpc-message", string(escaped))
}

// begin adds the headers of the response to frames, once. A response that ends with
// its first frame carries them in that frame.
func (s *stream) begin(frames []byte) []byte {
	if s.begun {
		return frames
	}
	s.begun = true
	return append(appendFrame(frames, frameHeaders, flagEndHeaders, s.id, len(responseHeaders)), responseHeaders...)
}

// close ends the response; sending is held.
func (s *stream) close(end []byte) {
	if s.ended {
		return
	}
	s.ended = true
	var frames []byte
	if !s.begun {
		frames = appendFrame(frames, frameHeaders, flagEndHeaders|flagEndStream, s.id, len(responseHeaders)+len(end))
		frames = append(append(frames, responseHeaders...), end...)
	} else {
		frames = append(appendFrame(frames, frameHeaders, flagEndHeaders|flagEndStream, s.id, len(end)), end...)
	}
	_ = s.conn.write(frames) // where it fails, the reader notices
}

// send sends a message, and after it the end of the response if that is not nil;
// sending is held. For a request that has ended it sends nothing.
func (s *stream) send(message, end []byte) {
	if s.ended || s.ctx.Err() != nil {
		return
	}
	frames := s.begin(make([]byte, 0, min(len(message), maxFrame)+256))
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) // memory ends before
	left := len(head) + len(message)
	for left > 0 {
		n, err := s.reserve(min(left, maxFrame), len(frames) == 0)
		if err != nil {
			return
		}
		if n == 0 { // the window is full: send what there is before waiting
			_ = s.conn.write(frames)
			frames = frames[:0]
			continue
		}
		left -= n
		frames = appendFrame(frames, frameData, 0, s.id, n)
		if h := min(n, len(head)); h > 0 {
			frames, head, n = append(frames, head[:h]...), head[h:], n-h
		}
		frames, message = append(frames, message[:n]...), message[n:]
		if left > 0 && len(frames) >= maxFrame {
			_ = s.conn.write(frames)
			frames = frames[:0]
		}
	}
	if end != nil {
		s.ended = true
		frames = append(appendFrame(frames, frameHeaders, flagEndHeaders|flagEndStream, s.id, len(end)), end...)
	}
	_ = s.conn.write(frames)
}

// wake wakes those that wait for room in a window.
func (c *conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room.Broadcast()
}

// reserve takes up to n bytes from the windows of the stream and the connection. If
// they are full, it waits, or returns 0 if it must not wait.
func (s *stream) reserve(n int, wait bool) (int, error) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.closed || s.ctx.Err() != nil {
			return 0, errEnded
		}
		if got := min(int64(n), c.window, s.window); got > 0 {
			c.window -= got
			s.window -= got
			return int(got), nil
		}
		if !wait {
			return 0, nil
		}
		stop := context.AfterFunc(s.ctx, c.wake)
		c.room.Wait()
		stop()
	}
}

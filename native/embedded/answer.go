package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"
)

// beginning are the headers of every answer: ":status: 200" and "content-type:
// application/grpc", in the form of HPACK that remembers nothing.
var beginning = append([]byte{0x88, 0x0f, 0x10, 16}, "application/grpc"...)

var errEnded = errors.New("the request has ended")

// answer answers a request with one message or several, and a status.
func (s *stream) answer(request []byte) {
	var held []byte // the latest message, which goes out with what comes behind it
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

// isResult tells whether an event of a call is its last.
func isResult(event []byte) bool { return len(event) > 0 && event[0] == 3<<3|bytesField }

// finish ends a request without a message.
func (s *stream) finish(c code, text string) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.close(trailers(c, text))
	s.forget()
}

// forget takes the stream out of those that are open.
func (s *stream) forget() {
	s.end()
	s.conn.mu.Lock()
	delete(s.conn.streams, s.id)
	s.conn.mu.Unlock()
}

// trailers are a status as gRPC writes it.
func trailers(c code, text string) []byte {
	field := func(dst []byte, name, value string) []byte {
		dst = append(append(dst, 0, byte(len(name))), name...) //nolint:gosec // of few bytes
		return append(append(dst, byte(len(value))), value...) //nolint:gosec // cut below
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

// begin writes the headers of the answer, once. A part that is the end as well
// carries them itself.
func (s *stream) begin(frames []byte) []byte {
	if s.begun {
		return frames
	}
	s.begun = true
	return append(appendFrame(frames, frameHeaders, flagEndHeaders, s.id, len(beginning)), beginning...)
}

// close ends the answer; sending is held.
func (s *stream) close(end []byte) {
	if s.ended {
		return
	}
	s.ended = true
	var frames []byte
	if !s.begun {
		frames = appendFrame(frames, frameHeaders, flagEndHeaders|flagEndStream, s.id, len(beginning)+len(end))
		frames = append(append(frames, beginning...), end...)
	} else {
		frames = append(appendFrame(frames, frameHeaders, flagEndHeaders|flagEndStream, s.id, len(end)), end...)
	}
	_ = s.conn.write(frames) // the reader finds out where it fails
}

// send sends a message, and the end of the answer behind it where that is not nil;
// sending is held. Nothing is sent of a request that has ended.
func (s *stream) send(message, end []byte) {
	if s.ended || s.ctx.Err() != nil {
		return
	}
	frames := s.begin(make([]byte, 0, min(len(message), maxFrame)+256))
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) //nolint:gosec // memory ends before
	left := len(head) + len(message)
	for left > 0 {
		n, err := s.reserve(min(left, maxFrame), len(frames) == 0)
		if err != nil {
			return
		}
		if n == 0 { // there is no room: what is there goes out before the wait
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

// look has those that wait for room look again.
func (c *conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room.Broadcast()
}

// reserve takes room for bytes of data, at most those it is asked for. It waits
// where there is none, or returns 0 where it must not.
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
		stop := context.AfterFunc(s.ctx, c.look)
		c.room.Wait()
		stop()
	}
}

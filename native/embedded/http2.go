package embedded

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
)

// This file implements as much of HTTP/2 (RFC 9113) as its only client needs: the
// gateway that has started this process, over pipes that nobody else has. A frame that
// this client would not send ends the connection and the process.

const (
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePushPromise  = 5
	framePing         = 6
	frameWindowUpdate = 8
	frameContinuation = 9

	flagEndStream  = 0x1 // of data and headers; ACK of settings and pings
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20

	settingMaxStreams = 3
	settingWindow     = 4

	maxFrame   = 16 << 10 // both ways
	maxHeaders = 64 << 10
	maxStreams = 10000
	maxRequest = 64 << 20 // bytes of one
	ourWindow  = 1 << 20  // of one stream, and of the connection
	maxWindow  = 1<<31 - 1
	// endTime is how long calls may continue after the host has gone.
	endTime = 2 * time.Second
)

var errProtocol = errors.New("the host does not speak HTTP/2 as it should")

// conn is the connection to the host.
type conn struct {
	in      *bufio.Reader
	service *service

	out     io.Writer
	writing sync.Mutex // held for one frame, or for several that belong together

	headers *hpack.Decoder // of the reader alone
	taken   int            // bytes of data received and not yet returned to the window
	running sync.WaitGroup

	mu      sync.Mutex
	room    *sync.Cond // signalled when a window grows and when the connection ends
	closed  bool
	window  int64 // how many bytes the host takes on the connection
	initial int64 // and on each new stream
	streams map[uint32]*stream
	last    uint32 // id of the latest stream
}

// stream is one request.
type stream struct {
	conn *conn
	id   uint32
	path string
	ctx  context.Context
	end  context.CancelFunc
	body []byte // of the reader alone, until the request is complete
	took int    // bytes of it not yet returned to the window
	done bool   // the request is complete

	window int64 // guarded by the connection's mu

	sending sync.Mutex
	begun   bool // headers were sent
	ended   bool
}

func newConn(in *bufio.Reader, out io.Writer, s *service) *conn {
	c := &conn{
		in: in, out: out, service: s, headers: hpack.NewDecoder(4096, nil), window: 65535, initial: 65535,
		streams: make(map[uint32]*stream),
	}
	c.room = sync.NewCond(&c.mu)
	c.headers.SetMaxStringLength(maxHeaders)
	return c
}

// serve serves until the host closes the connection.
func (c *conn) serve() error {
	err := c.readPreface()
	for err == nil {
		err = c.frame()
	}
	c.mu.Lock()
	c.closed = true
	for _, s := range c.streams {
		s.end()
	}
	c.room.Broadcast()
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		c.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		c.service.served.Close()
	case <-time.After(endTime):
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// readPreface reads the start of the connection and sends our settings.
func (c *conn) readPreface() error {
	got := make([]byte, len(preface))
	if _, err := io.ReadFull(c.in, got); err != nil {
		return err
	}
	if string(got) != preface {
		return errProtocol
	}
	hello := appendFrame(nil, frameSettings, 0, 0, 12)
	hello = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(hello, settingMaxStreams), maxStreams)
	hello = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(hello, settingWindow), ourWindow)
	return c.write(appendWindow(hello, 0, ourWindow-65535))
}

func appendFrame(dst []byte, kind, flags byte, id uint32, length int) []byte {
	dst = append(dst, byte(length>>16), byte(length>>8), byte(length), kind, flags) // of 24 bits
	return binary.BigEndian.AppendUint32(dst, id)
}

func appendWindow(dst []byte, id uint32, more int) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(dst, frameWindowUpdate, 0, id, 4), uint32(more)) // of 31 bits
}

func (c *conn) write(frames []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.out.Write(frames)
	return err
}

// header is that of a frame.
type header struct {
	length      int
	kind, flags byte
	id          uint32
}

func (h *header) has(flag byte) bool { return h.flags&flag != 0 }

func (c *conn) header() (h header, err error) {
	var raw [9]byte
	if _, err := io.ReadFull(c.in, raw[:]); err != nil {
		return h, err
	}
	h.length = int(raw[0])<<16 | int(raw[1])<<8 | int(raw[2])
	h.kind, h.flags = raw[3], raw[4]
	h.id = binary.BigEndian.Uint32(raw[5:]) & maxWindow
	if h.length > maxFrame {
		return h, fmt.Errorf("%w: a frame of %d bytes", errProtocol, h.length)
	}
	return h, nil
}

// frame reads and handles one frame.
func (c *conn) frame() error {
	h, err := c.header()
	if err != nil {
		return err
	}
	if h.kind == frameData {
		return c.data(h)
	}
	payload := make([]byte, h.length)
	if _, err := io.ReadFull(c.in, payload); err != nil {
		return err
	}
	switch h.kind {
	case frameHeaders:
		return c.request(h, payload)
	case frameReset:
		c.mu.Lock()
		defer c.mu.Unlock()
		if s := c.streams[h.id]; s != nil {
			s.end()
			c.room.Broadcast()
		}
	case frameSettings:
		return c.settings(h, payload)
	case framePing:
		if h.length != 8 {
			return errProtocol
		}
		if !h.has(flagAck) {
			return c.write(append(appendFrame(nil, framePing, flagAck, 0, 8), payload...))
		}
	case frameWindowUpdate:
		return c.more(h, payload)
	case framePushPromise, frameContinuation:
		return errProtocol
	}
	return nil
}

func (c *conn) settings(h header, payload []byte) error {
	if h.has(flagAck) {
		return nil
	}
	if len(payload)%6 != 0 {
		return errProtocol
	}
	c.mu.Lock()
	for ; len(payload) > 0; payload = payload[6:] {
		value := int64(binary.BigEndian.Uint32(payload[2:]))
		if binary.BigEndian.Uint16(payload) != settingWindow {
			continue
		}
		if value > maxWindow {
			c.mu.Unlock()
			return errProtocol
		}
		for _, s := range c.streams {
			s.window += value - c.initial
		}
		c.initial = value
	}
	c.room.Broadcast()
	c.mu.Unlock()
	return c.write(appendFrame(nil, frameSettings, flagAck, 0, 0))
}

// more enlarges a window as the host says.
func (c *conn) more(h header, payload []byte) error {
	if len(payload) != 4 {
		return errProtocol
	}
	by := int64(binary.BigEndian.Uint32(payload) & maxWindow)
	c.mu.Lock()
	defer c.mu.Unlock()
	window := &c.window
	if h.id != 0 {
		s := c.streams[h.id]
		if s == nil {
			return nil // its stream has ended
		}
		window = &s.window
	}
	if *window += by; *window > maxWindow {
		return errProtocol
	}
	c.room.Broadcast()
	return nil
}

// unpad removes the padding of a frame.
func unpad(h *header, payload []byte) ([]byte, error) {
	if !h.has(flagPadded) {
		return payload, nil
	}
	if len(payload) == 0 || int(payload[0]) >= len(payload) {
		return nil, errProtocol
	}
	return payload[1 : len(payload)-int(payload[0])], nil
}

// request starts a stream.
func (c *conn) request(h header, payload []byte) error {
	block, err := unpad(&h, payload)
	if err != nil {
		return err
	}
	if h.has(flagPriority) {
		if len(block) < 5 {
			return errProtocol
		}
		block = block[5:]
	}
	for end := h.has(flagEndHeaders); !end; {
		next, err := c.header()
		if err != nil {
			return err
		}
		if next.kind != frameContinuation || next.id != h.id || len(block)+next.length > maxHeaders {
			return errProtocol
		}
		from := len(block)
		block = append(block[:from:from], make([]byte, next.length)...)
		if _, err := io.ReadFull(c.in, block[from:]); err != nil {
			return err
		}
		end = next.has(flagEndHeaders)
	}
	s := &stream{conn: c, id: h.id}
	timeout, timed := time.Duration(0), false
	c.headers.SetEmitFunc(func(f hpack.HeaderField) {
		switch f.Name {
		case ":path":
			s.path = f.Value
		case "grpc-timeout":
			timeout, timed = grpcTimeout(f.Value)
		}
	})
	if _, err := c.headers.Write(block); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if err := c.headers.Close(); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	if timed {
		s.ctx, s.end = context.WithTimeout(context.Background(), timeout)
	}
	c.mu.Lock()
	old := h.id%2 == 0 || h.id <= c.last
	full := len(c.streams) >= maxStreams
	if !old && !full {
		c.last, s.window = h.id, c.initial
		c.streams[h.id] = s
	}
	c.mu.Unlock()
	if old || full { // this client does neither
		s.end()
		return errProtocol
	}
	if !c.service.serves(s.path) {
		s.finish(codeUnimplemented, "there is no such method")
		return nil
	}
	if h.has(flagEndStream) {
		c.run(s)
	}
	return nil
}

// data reads a part of a request.
func (c *conn) data(h header) error {
	c.mu.Lock()
	s := c.streams[h.id]
	c.mu.Unlock()
	if s == nil || s.done || !c.service.serves(s.path) { // sent before the response arrived
		if _, err := c.in.Discard(h.length); err != nil {
			return err
		}
		return c.took(nil, h.length)
	}
	from := len(s.body)
	if from+h.length > maxRequest {
		return fmt.Errorf("%w: a request of more than %d bytes", errProtocol, maxRequest)
	}
	if s.body == nil && h.has(flagEndStream) {
		s.body = make([]byte, h.length)
	} else {
		s.body = append(s.body, make([]byte, h.length)...)
	}
	if _, err := io.ReadFull(c.in, s.body[from:]); err != nil {
		return err
	}
	got, err := unpad(&h, s.body[from:])
	if err != nil {
		return err
	}
	s.body = append(s.body[:from], got...)
	if !h.has(flagEndStream) {
		return c.took(s, h.length)
	}
	c.run(s)
	return c.took(nil, h.length)
}

// took returns bytes to the windows of the host from time to time: to that of a stream
// that continues, and to that of the connection.
func (c *conn) took(s *stream, n int) error {
	var frames []byte
	if s != nil {
		if s.took += n; s.took > ourWindow/2 {
			frames, s.took = appendWindow(frames, s.id, s.took), 0
		}
	}
	if c.taken += n; c.taken > ourWindow/2 {
		frames, c.taken = appendWindow(frames, 0, c.taken), 0
	}
	if frames == nil {
		return nil
	}
	return c.write(frames)
}

// run handles a request that is complete.
func (c *conn) run(s *stream) {
	body := s.body
	s.body, s.done = nil, true
	c.running.Go(func() {
		if len(body) < 5 || body[0] != 0 || int64(binary.BigEndian.Uint32(body[1:])) != int64(len(body)-5) {
			s.finish(codeInvalidArgument, "the request is not one message")
			return
		}
		s.answer(body[5:])
	})
}

// grpcTimeout reads a timeout as gRPC writes it, such as 100m.
func grpcTimeout(text string) (d time.Duration, ok bool) {
	if len(text) < 2 || len(text) > 9 {
		return 0, false
	}
	unit, known := map[byte]time.Duration{
		'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
	}[text[len(text)-1]]
	n := time.Duration(0)
	for _, c := range []byte(text[:len(text)-1]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + time.Duration(c-'0')
	}
	if n > time.Duration(1<<63-1)/max(unit, 1) {
		n = time.Duration(1<<63-1) / max(unit, 1)
	}
	return n * unit, known
}

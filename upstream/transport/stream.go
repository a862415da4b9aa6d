package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// streamRequests bounds the requests in flight on one stream that [ServeStream] serves.
	streamRequests = 1024
	// streamBehind bounds the bytes of notifications that wait for a reader of a stream. One
	// that is further behind has to open its stream again.
	streamBehind = 4 << 20
)

// Stream is a pair of byte streams to a process at another gateway.
type Stream struct {
	In io.Reader
	To io.Writer
	// HangUp ends both streams.
	HangUp func()
	// Why returns why In has ended, as the other side says it; nil if it says nothing, because
	// the gateway is gone.
	Why func() error
}

// NewStream returns a link over a stream, of which the other side is served by
// [ServeStream].
func NewStream(o *Options, s Stream, inbound func(mcp.Message)) Link {
	p := newPipe(o, s.In, s.To, inbound)
	p.hangUp = func(context.Context) { s.HangUp() }
	p.lastWords = func(writing bool, err error) error {
		if why := s.Why(); !writing && errors.Is(err, io.EOF) && why != nil {
			return why
		}
		return fmt.Errorf("%w: %w", ErrMoved, hungUp(writing, err))
	}
	p.start()
	return p
}

// streamServer serves one stream.
type streamServer struct {
	link   Link
	limits Limits
	out    io.Writer
	flush  func() error
	ctx    context.Context
	end    context.CancelCauseFunc
	wg     sync.WaitGroup

	writing sync.Mutex // held for one line

	mu       sync.Mutex
	requests map[string]context.CancelCauseFunc // in flight, by the key of the id
	behind   int                                // bytes of waiting notifications
	waiting  [][]byte                           // notifications
	arrived  chan struct{}                      // capacity 1
	closed   bool
}

// ServeStream carries the messages of a stream to a link that join opens, and back, until
// either ends or the context does. join returns where to write, too; flush is called after
// each line. ServeStream returns why the stream ended; nil if the other side ended it.
func ServeStream(ctx context.Context, in io.Reader, limits Limits, join func(inbound func(mcp.Message)) (_ Link, out io.Writer, flush func() error, _ error)) error {
	s := &streamServer{limits: limits, requests: make(map[string]context.CancelCauseFunc), arrived: make(chan struct{}, 1)}
	s.ctx, s.end = context.WithCancelCause(ctx)
	defer s.end(nil)
	link, out, flush, err := join(s.notify)
	if err != nil {
		return err
	}
	s.link, s.out, s.flush = link, out, flush
	defer link.Close(context.WithoutCancel(ctx))
	s.wg.Go(s.writeNotifications)
	defer s.close()
	ended := make(chan error, 1)
	go func() { ended <- s.read(in) }() // ends with in, which whoever called ends after this returns
	select {
	case err := <-ended:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case <-link.Done():
		return link.Cause()
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// read takes messages from the stream until it ends.
func (s *streamServer) read(in io.Reader) error {
	lines := newLineReader(in, s.limits.Line, nil)
	for {
		line, err := lines.next()
		if err != nil {
			return err
		}
		msg, err := mcp.Parse(line, mcp.Limits{Depth: s.limits.Depth, LoneSurrogates: true})
		if err != nil {
			return fmt.Errorf("another gateway sent what is no message: %w", err)
		}
		if msg.Kind == mcp.KindRequest {
			s.request(msg)
			continue
		}
		if err := s.link.Send(s.ctx, msg.Raw, nil); err != nil {
			return err
		}
		if id, ok := mcp.ParseID(msg.Param("requestId")); ok && msg.Method == mcp.NotifyCancelled {
			s.cancel(id)
		}
	}
}

// request sends a request on, and its answer back.
func (s *streamServer) request(msg mcp.Message) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	key := msg.ID.Key()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.requests[key]; s.closed || twice || len(s.requests) >= streamRequests {
		cancel(nil)
		s.end(errors.New("another gateway has too many requests in flight, or two with one id"))
		return
	}
	s.requests[key] = cancel
	s.wg.Go(func() {
		s.roundTrip(ctx, msg)
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.requests, key)
	})
}

// roundTrip asks the process, and writes what comes back.
func (s *streamServer) roundTrip(ctx context.Context, msg mcp.Message) {
	answer, err := s.link.RoundTrip(ctx, &Request{
		ID: msg.ID, Raw: msg.Raw, Stream: msg.Method == mcp.MethodListen, Handshake: msg.Method == mcp.MethodInitialize,
		Arrived: func(m mcp.Message) { s.write(m.Raw) },
	})
	switch {
	case err == nil:
		s.write(answer.Raw)
	case ctx.Err() == nil && s.link.Cause() == nil:
		s.write(mcp.AppendFault(nil, msg.ID, mcp.Errorf(mcp.CodeInternal, "%v", err)))
	}
}

// close waits for everything that the stream has started.
func (s *streamServer) close() {
	s.end(nil)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
}

// cancel ends the wait for an answer that nobody wants.
func (s *streamServer) cancel(id mcp.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.requests[id.Key()]; cancel != nil {
		cancel(context.Canceled)
	}
}

// notify queues a message that belongs to no request. It does not block.
func (s *streamServer) notify(msg mcp.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behind += len(msg.Raw); s.behind > streamBehind && len(s.waiting) > 0 || len(s.waiting) >= streamRequests {
		s.end(errors.New("another gateway reads slower than the server notifies"))
		return
	}
	s.waiting = append(s.waiting, msg.Raw)
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// writeNotifications writes what notify queues.
func (s *streamServer) writeNotifications() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.arrived:
		}
		s.mu.Lock()
		waiting := s.waiting
		s.waiting, s.behind = nil, 0
		s.mu.Unlock()
		for _, raw := range waiting {
			s.write(raw)
		}
	}
}

// write writes one message. Where that fails, the stream ends.
func (s *streamServer) write(raw []byte) {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.out.Write(append(mcp.AppendLine(make([]byte, 0, len(raw)+1), raw), '\n'))
	if err == nil {
		err = s.flush()
	}
	if err != nil {
		s.end(fmt.Errorf("write to another gateway: %w", err))
	}
}

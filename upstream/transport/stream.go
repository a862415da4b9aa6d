package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// streamRequests bounds the requests in flight on one stream that [ServeStream] serves.
	streamRequests = 1024
	// streamBehind bounds the bytes of notifications that wait for a reader of a stream. One
	// that is further behind has to open its stream again.
	streamBehind = 4 << 20
	// streamSend bounds the time in which a process takes a notification, and the other side
	// what is written when the stream ends.
	streamSend = 5 * time.Second
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
		if !writing && errors.Is(err, io.EOF) { // what the other side says is there then, and not before
			if why := s.Why(); why != nil {
				return why
			}
		}
		return fmt.Errorf("%w: %w", ErrMoved, hungUp(writing, err))
	}
	p.start()
	return p
}

// Far is the other side of a stream that is served.
type Far interface {
	io.Writer
	// Flush sends what was written.
	Flush() error
	// Cut ends writes that wait for the other side. It may be called beside them.
	Cut()
}

// streamServer serves one stream.
type streamServer struct {
	link   Link
	limits Limits
	far    Far
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
// either ends or the context does. join returns the other side, too. ServeStream returns why
// the stream ended; nil if the other side ended it, or the process is elsewhere.
func ServeStream(ctx context.Context, in io.Reader, limits Limits, join func(inbound func(mcp.Message)) (Link, Far, error)) error {
	s := &streamServer{limits: limits, requests: make(map[string]context.CancelCauseFunc), arrived: make(chan struct{}, 1)}
	s.ctx, s.end = context.WithCancelCause(ctx)
	defer s.end(nil)
	link, far, err := join(s.notify)
	if err != nil {
		return err
	}
	s.link, s.far = link, far
	defer link.Close(context.WithoutCancel(ctx))
	s.wg.Go(s.writeNotifications)
	defer s.close()
	ended := make(chan error, 1)
	go func() { ended <- s.read(in) }() // ends with in, which whoever called ends after this returns
	select {
	case err := <-ended:
		if errors.Is(err, io.EOF) || errors.Is(link.Cause(), ErrMoved) {
			return nil
		}
		return err
	case <-link.Done():
		if err := link.Cause(); !errors.Is(err, ErrMoved) { // which the end of the stream says by itself
			return err
		}
		return nil
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
		if err := s.send(msg.Raw); err != nil {
			s.end(err)
			return err
		}
		if id, ok := mcp.ParseID(msg.Param("requestId")); ok && msg.Method == mcp.NotifyCancelled {
			s.cancel(id)
		}
	}
}

// send sends a notification on. A process that does not read holds up no other stream of its
// connection for long.
func (s *streamServer) send(raw []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, streamSend)
	defer cancel()
	return s.link.Send(ctx, raw, nil)
}

// request sends a request on, and its answer back.
func (s *streamServer) request(msg mcp.Message) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	key := msg.ID.Key()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch _, twice := s.requests[key]; {
	case s.closed:
		cancel(nil)
		return
	case twice:
		cancel(nil)
		s.end(errors.New("another gateway has two requests with one id"))
		return
	case len(s.requests) >= streamRequests:
		cancel(nil)
		s.refuse(msg.ID)
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

// refuse queues the answer to a request that is one too many; mu is held.
func (s *streamServer) refuse(id mcp.ID) {
	s.enqueue(mcp.AppendFault(nil, id, mcp.Errorf(mcp.CodeInternal, "the gateway that runs the server has %d requests of this one in flight, and takes no more", streamRequests)))
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

// close waits for everything that the stream has started. A reader that has stopped does not
// hold it for long.
func (s *streamServer) close() {
	s.end(nil)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	cut := make(chan struct{})
	late := time.AfterFunc(streamSend, func() { defer close(cut); s.far.Cut() })
	s.wg.Wait()
	if !late.Stop() {
		<-cut // the other side is there until then
	}
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
	s.enqueue(msg.Raw)
}

// enqueue queues a message; mu is held.
func (s *streamServer) enqueue(raw []byte) {
	if s.behind += len(raw); s.behind > streamBehind && len(s.waiting) > 0 || len(s.waiting) >= 2*streamRequests {
		s.end(errors.New("another gateway reads slower than the server notifies"))
		return
	}
	s.waiting = append(s.waiting, raw)
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
	_, err := s.far.Write(append(mcp.AppendLine(make([]byte, 0, len(raw)+1), raw), '\n'))
	if err == nil {
		err = s.far.Flush()
	}
	if err != nil {
		s.end(fmt.Errorf("write to another gateway: %w", err))
	}
}

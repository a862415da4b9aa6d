package http1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
)

// Server serves connections without TLS. It is for one listener. Make it with [New].
//
// Its methods are safe for concurrent use.
type Server struct {
	http *http.Server

	closing atomic.Bool
	date    atomic.Pointer[date]
	odd     *handover
	poller  poller

	mu       sync.Mutex
	listener net.Listener
	conns    map[*conn]struct{}
	empty    chan struct{} // closed when there is no connection any more, after closing
}

// New returns a server with the handler, the limits and the hooks of another one, which gets
// what is not plain. All its limits of time are set. Afterwards it is used by nobody else.
func New(of *http.Server) *Server {
	return &Server{http: of, odd: newHandover(), conns: make(map[*conn]struct{}), empty: make(chan struct{})}
}

// Serve serves the connections of a listener until [Server.Shutdown] or [Server.Close], and
// returns [http.ErrServerClosed] then. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.begin(l) {
		return http.ErrServerClosed
	}
	base := context.Background()
	if s.http.BaseContext != nil {
		base = s.http.BaseContext(l)
	}
	base = context.WithValue(base, http.ServerContextKey, s.http)
	others := make(chan error, 1)
	go func() { others <- s.http.Serve(s.odd) }() // ends when the handover is closed
	err := s.accept(base, l)
	if !s.closing.Load() {
		s.odd.Close()
	}
	if other := <-others; !errors.Is(other, http.ErrServerClosed) && !errors.Is(other, net.ErrClosed) {
		err = errors.Join(err, other)
	}
	return err
}

// begin takes the listener; it is false for a server that was closed before.
func (s *Server) begin(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener, s.odd.addr = l, l.Addr()
	return !s.closing.Load()
}

const (
	// acceptPause is how long the server waits after the system has refused a connection for
	// the moment, and longestPause how long it waits after many times.
	acceptPause  = 5 * time.Millisecond
	longestPause = time.Second
)

// accept serves connections until the listener fails.
func (s *Server) accept(base context.Context, l net.Listener) error {
	for pause := acceptPause; ; {
		accepted, err := l.Accept()
		switch {
		case err == nil:
			pause = acceptPause
			if c := s.track(base, accepted); c != nil {
				go c.serve() // ends with the connection
			} else {
				accepted.Close()
			}
		case s.closing.Load():
			return http.ErrServerClosed
		case !passes(err):
			return fmt.Errorf("accept connections: %w", err)
		default:
			s.logf("http: Accept error: %v; retrying in %v", err, pause)
			_ = backoff.Sleep(base, pause) // Accept says whether it goes on
			pause = min(2*pause, longestPause)
		}
	}
}

// passes tells whether the error of a listener is one of the moment, such as too many open files.
func passes(err error) bool {
	at, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && at.Temporary()
}

func (s *Server) track(base context.Context, accepted net.Conn) *conn {
	c := newConn(s, base, accepted)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return nil
	}
	s.conns[c] = struct{}{}
	return c
}

func (s *Server) untrack(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.lookEmpty()
}

// lookEmpty tells Shutdown that nothing is left, and ends the poller then; mu is held.
func (s *Server) lookEmpty() {
	if !s.closing.Load() || len(s.conns) > 0 {
		return
	}
	select {
	case <-s.empty:
	default:
		s.poller.end()
		close(s.empty)
	}
}

// end lets nobody in any more, and closes connections: those without a request, or all.
func (s *Server) end(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing.Store(true)
	if s.listener != nil {
		s.listener.Close()
	}
	for c := range s.conns {
		if c.idle.CompareAndSwap(true, false) || all {
			c.net.Close()
			c.gone.closed()
		}
	}
	s.lookEmpty()
}

// Shutdown ends the server as [http.Server.Shutdown] does: idle connections are closed, and
// the others after their response. It waits for them until ctx ends, whose error it returns
// then.
func (s *Server) Shutdown(ctx context.Context) error {
	s.end(false)
	err := s.http.Shutdown(ctx)
	s.odd.Close()
	select {
	case <-s.empty:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the server and closes all connections.
func (s *Server) Close() error {
	s.end(true)
	err := s.http.Close()
	s.odd.Close()
	return err
}

// logf logs as [http.Server.ErrorLog] does.
func (s *Server) logf(format string, args ...any) {
	if s.http.ErrorLog != nil {
		s.http.ErrorLog.Printf(format, args...)
	}
}

// date is the Date of responses within one second.
type date struct {
	second int64
	text   string
}

// dateOf returns the Date of a response.
func (s *Server) dateOf(now time.Time) string {
	d := s.date.Load()
	if d == nil || d.second != now.Unix() {
		d = &date{now.Unix(), now.UTC().Format(http.TimeFormat)}
		s.date.Store(d)
	}
	return d.text
}

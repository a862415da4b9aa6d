package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// A server that drains, as after a reload, waits for the calls of a connection that moves, that
// was replaced, or that was lost, although it is not the own one any more.
func TestDrainWaitsForWhatLeaves(t *testing.T) {
	for name, leave := range map[string]func(s *Server, conn *Conn){
		"moves alone": func(s *Server, conn *Conn) { go s.pool.moveAlone(conn) },
		"replaced": func(s *Server, conn *Conn) {
			next := newConn(s.pool.spec, s.log, nil, false)
			next.link = conn.link
			if !s.pool.replaceOwn(conn, next) {
				t.Fatal("it is not replaced")
			}
			s.pool.dropOwn(next, nil)
		},
		"retired": func(s *Server, conn *Conn) {
			conn.shared = false
			s.pool.dropOwn(conn, errors.New("lost"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(childServer("both", mcp.EraUnknown), Options{Logger: slog.New(slog.DiscardHandler)})
				life, end := context.WithCancel(t.Context())
				s.pool.life = life
				conn, _, done := memoryConn(t, s.spec, mcp.Modern)
				defer done()
				s.pool.setOwn(conn)
				if _, err := s.pool.owned(t.Context(), connKey{}, conn); err != nil { // a call begins
					t.Fatal(err)
				}
				leave(s, conn)
				synctest.Wait()
				drained := make(chan time.Time, 1)
				began := time.Now()
				go func() { s.Drain(t.Context()); drained <- time.Now() }()
				time.Sleep(3 * time.Second)
				if len(drained) > 0 {
					t.Error("the server has drained, and a call is in flight")
				}
				if err := conn.link.Cause(); errors.Is(err, transport.ErrMoved) {
					t.Error("the connection has ended, and a call is in flight")
				}
				conn.finish()
				if took := (<-drained).Sub(began); took > 4*time.Second {
					t.Errorf("it drained after %v", took)
				}
				if name == "replaced" {
					s.pool.retireReplaced(conn)
				}
				end()
				s.pool.wg.Wait()
				synctest.Wait()
				if n := len(s.pool.leaving); n > 0 {
					t.Errorf("%d connections are leaving for good", n)
				}
			})
		})
	}
}

// told is a link that is told to move. It is asked nothing else.
type told struct{ transport.Moving }

// Moved implements transport.Moving.
func (told) Moved() <-chan struct{} {
	moved := make(chan struct{}, 1)
	moved <- struct{}{}
	return moved
}

// A connection that another has replaced does not move.
func TestReplacedDoesNotMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(childServer("both", mcp.EraUnknown), Options{Logger: slog.New(slog.DiscardHandler)})
		conn, _, done := memoryConn(t, s.spec, mcp.Modern)
		defer done()
		s.pool.setOwn(newConn(s.pool.spec, s.log, nil, false))
		s.follow(conn, told{})
	})
}

// offered counts the offers of a server that are open. It opens no link.
type offered struct{ open, made int }

func (o *offered) Offer(string, *transport.Options) (withdraw func()) {
	o.open++
	o.made++
	return func() { o.open-- }
}

func (o *offered) Dial(ctx context.Context, _ string, _ *transport.Options, _ func(mcp.Message)) (transport.Link, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// A placed server is offered to other gateways before it runs, or when it runs, once, and until
// it has ended.
func TestOffered(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := &offered{}
			s := New(childServer("both", mcp.EraUnknown), Options{Sink: deafSink{}, Logger: slog.New(slog.DiscardHandler), Placed: o})
			if early {
				if s.Offer(); o.open != 1 {
					t.Errorf("%d offers are open before it runs", o.open)
				}
			}
			ctx, end := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = s.Run(ctx) })
			synctest.Wait()
			if o.open != 1 || o.made != 1 {
				t.Errorf("offered early %t: %d offers are open, %d were made", early, o.open, o.made)
			}
			end()
			running.Wait()
			if o.open != 0 {
				t.Errorf("offered early %t: %d offers are open at the end", early, o.open)
			}
		})
	}
}

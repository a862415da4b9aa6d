package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// unlisted records that the lists cannot be read. Where the reason is the
// connection, it is given up for a new one: the credential or the session is
// not good any more, or behind the URL is another server than before.
func (s *Server) unlisted(ctx context.Context, conn *Conn, err error) {
	if ctx.Err() != nil || conn.link.Cause() != nil {
		return
	}
	var login *transport.LoginError
	var status *transport.StatusError
	var fault *mcp.Error
	switch {
	case errors.As(err, &login), errors.Is(err, transport.ErrSessionLost):
		conn.link.Fail(err)
		return
	case !conn.shared && (errors.As(err, &fault) || errors.As(err, &status) && transport.IsRejection(status)):
		if gone := conn.recognised(ctx); gone != nil {
			conn.link.Fail(fmt.Errorf("the server is not the one it was: %w", gone))
			return
		}
	}
	s.publish(nil, mcp.Degraded, "connected, but its lists cannot be read: "+describe(err))
}

// publish sets the listing (nil keeps the last one) and the state.
func (s *Server) publish(listing *mcp.Listing, state mcp.State, reason string) {
	s.mu.Lock()
	if listing != nil {
		s.complete(listing)
		if same(s.listing, listing) {
			listing = nil
		} else {
			s.listing = listing
		}
	}
	s.learned()
	news := listing != nil || s.status.State != state || s.status.Reason != reason
	s.setStatus(state, reason)
	s.mu.Unlock()
	if news {
		s.opts.Sink.Changed(s.spec.Key)
	}
}

// setStatus enters a state and wakes whoever waits for one, or for a connection; mu
// is held.
func (s *Server) setStatus(state mcp.State, reason string) {
	if s.status.State != state {
		s.status.Since = time.Now()
	}
	s.status.State, s.status.Reason = state, reason
	close(s.moved)
	s.moved = make(chan struct{})
	s.freed.ring()
}

// missing returns why somebody has to sign in before there is a connection, nil
// when nobody has.
func (s *Server) missing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.login
}

// Renewed takes the news that the credential is another one. A server that waits
// for that is tried at once; of one that is connected the lists are read again, which
// may be others now. It does not block.
func (s *Server) Renewed() { s.expect() }

// Wake takes the news that the credential may be another one, for a server that
// waits for that. It does not block.
func (s *Server) Wake() {
	if _, status := s.Listing(); status.State == mcp.NeedsLogin {
		s.expect()
	}
}

// unreachable records a failed attempt.
func (s *Server) unreachable(err error) {
	var login *transport.LoginError
	s.mu.Lock()
	s.login = nil
	if missing, ok := errors.AsType[transport.MissingError](err); ok {
		s.login = missing
	}
	s.renewing = false
	s.learned()
	s.era = s.spec.Era // what was remembered may be the reason
	state := mcp.Failed
	switch {
	case errors.As(err, &login):
		state = mcp.NeedsLogin
	case s.listing != nil && !s.listing.Stale:
		state = mcp.Reconnecting
	case s.listing != nil:
		state = mcp.Stale
	}
	reason := describe(err)
	entered, changed := s.status.State != state, s.status.State != state || s.status.Reason != reason
	s.setStatus(state, reason)
	s.mu.Unlock()
	if entered {
		s.log.Warn("not connected", "state", state.String(), "err", reason)
	}
	if changed {
		s.opts.Sink.Changed(s.spec.Key)
	}
}

// dropMain ends the gateway's own connection.
func (s *Server) dropMain(conn *Conn, err error) {
	s.mu.Lock()
	if s.main == conn {
		s.main = nil
	}
	if p, ok := conn.link.(transport.Process); ok {
		s.stderr = p.Tail()
	}
	s.renewing = errors.Is(err, transport.ErrSessionLost)
	if !s.stopped && s.life.Err() == nil {
		state := mcp.Reconnecting
		s.login = nil
		if login := (*transport.LoginError)(nil); errors.As(err, &login) {
			state = mcp.NeedsLogin
			s.learned()
			if missing, ok := errors.AsType[transport.MissingError](err); ok {
				s.login = missing
			}
		}
		s.setStatus(state, describe(err))
	}
	s.mu.Unlock()
	s.opts.Sink.Changed(s.spec.Key)
	if conn.shared {
		closeConn(conn) // one process ends before the next starts
		return
	}
	s.wg.Go(func() { s.retire(conn) }) // it is no process
}

// heard takes a notification that belongs to no call.
func (s *Server) heard(conn *Conn, msg mcp.Message) {
	switch msg.Method {
	case mcp.NotifyToolsChanged, mcp.NotifyPromptsChanged, mcp.NotifyResourcesChanged:
		s.mu.Lock()
		for _, kind := range mcp.Kinds {
			if kind.Changed() == msg.Method {
				s.announce(conn, kind)
			}
		}
		s.plain.due = true
		s.mu.Unlock()
		signal(s.refetch)
	case mcp.NotifyResourceUpdated, mcp.NotifyMessage, mcp.NotifyElicitComplete, mcp.NotifyTaskStatus:
		s.event(conn, msg.Method, msg.Params())
	}
}

// event hands a notification to the sink with whom the connection belongs to.
func (s *Server) event(conn *Conn, method string, params []byte) {
	principal := conn.key.principal
	if principal == "" && s.spec.Isolation != IsolateShared && conn.era == mcp.Legacy {
		principal = s.spec.Local
	}
	s.opts.Sink.Happened(mcp.Event{
		Server: s.spec.Key, Principal: principal, Session: conn.key.session, Conn: conn.name, Plain: conn.plain(), Era: conn.era, Method: method, Params: params,
	})
}

// maxReason is how many bytes of an error a person is shown.
const maxReason = 600

// describe renders an error as a sentence for a person: one line, safe to print
// and not long, whatever the server has put into it.
func describe(err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, context.Canceled) {
		return "stopped"
	}
	text := err.Error()
	cut := len(text) > maxReason
	if cut {
		text = text[:maxReason]
	}
	return child.Printable([]byte(strings.Join(strings.Fields(text), " ")), cut)
}

// signal sets a flag channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func drain(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}

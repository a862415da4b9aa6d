package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
		if gone := conn.stillSpeaks(ctx); gone != nil {
			conn.link.Fail(fmt.Errorf("the server is not the one it was: %w", gone))
			return
		}
	}
	s.catalog.publish(nil, mcp.Degraded, "connected, but its lists cannot be read: "+describe(err))
}

// Renewed takes the news that the credential is another one. A server that waits
// for that is tried at once; of one that is connected the lists are read again, which
// may be others now. It does not block.
func (s *Server) Renewed() { s.catalog.expect() }

// Wake takes the news that the credential may be another one, for a server that
// waits for that. It does not block.
func (s *Server) Wake() {
	if _, status := s.Listing(); status.State == mcp.NeedsLogin {
		s.catalog.expect()
	}
}

// dropMain ends the gateway's own connection.
func (s *Server) dropMain(conn *Conn, err error) {
	if s.pool.dropOwn(conn, err) {
		s.catalog.disconnected(err)
	}
	s.opts.Sink.Changed(s.spec.Key)
	if conn.shared {
		closeConn(conn) // one process ends before the next starts
		return
	}
	s.pool.retire(conn) // it is no process
}

// heard takes a notification that belongs to no call.
func (s *Server) heard(conn *Conn, msg mcp.Message) {
	switch msg.Method {
	case mcp.NotifyToolsChanged, mcp.NotifyPromptsChanged, mcp.NotifyResourcesChanged:
		s.catalog.announce(conn, msg.Method)
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
		Server: s.spec.Key, Principal: principal, Session: conn.key.session, Conn: conn.name, Plain: conn.declaresNothing(), Era: conn.era, Method: method, Params: params,
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

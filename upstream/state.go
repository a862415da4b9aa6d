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

// unlisted records that the lists cannot be read. If the connection is the reason, it is
// given up for a new one: the credential or the session is no longer good, or a different
// server answers at the URL.
func (s *Server) unlisted(ctx context.Context, conn *Conn, err error) {
	if ctx.Err() != nil || conn.link.Cause() != nil {
		return
	}
	var login *transport.LoginError
	var status *transport.StatusError
	var fault *mcp.Error
	switch {
	case errors.As(err, &login), renewable(err):
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

// Renewed is told that the credential has changed. A server that waits for it is tried at
// once; a connected server is asked for its lists again, which may differ now. It does not
// block.
func (s *Server) Renewed() { s.catalog.expect() }

// Wake is told that the credential may have changed, and tries again if the server waits
// for one. It does not block.
func (s *Server) Wake() {
	if _, status := s.Listing(); status.State == mcp.NeedsLogin {
		s.catalog.expect()
	}
}

// dropMain ends the own connection.
func (s *Server) dropMain(conn *Conn, err error) {
	if s.pool.dropOwn(conn, err) {
		s.catalog.disconnected(err)
	}
	s.opts.Sink.Changed(s.spec.Key)
	if conn.shared {
		closeConn(conn) // a process ends before the next one starts
	}
}

// heard handles a notification that belongs to no call.
func (s *Server) heard(conn *Conn, msg mcp.Message) {
	switch msg.Method {
	case mcp.NotifyToolsChanged, mcp.NotifyPromptsChanged, mcp.NotifyResourcesChanged:
		s.catalog.announce(conn, msg.Method)
		signal(s.refetch)
	case mcp.NotifyResourceUpdated, mcp.NotifyMessage, mcp.NotifyElicitComplete, mcp.NotifyTaskStatus:
		s.event(conn, msg.Method, msg.Params())
	}
}

// event passes a notification to the sink, with the owner of the connection.
func (s *Server) event(conn *Conn, method string, params []byte) {
	principal := conn.key.principal
	if principal == "" && s.spec.Isolation != IsolateShared && conn.era == mcp.Legacy {
		principal = s.spec.Local
	}
	s.opts.Sink.Happened(mcp.Event{
		Server: s.spec.Key, Principal: principal, Session: conn.key.session, Conn: conn.name, WithoutCapabilities: conn.declaresNothing(), Era: conn.era, Method: method, Params: params,
	})
}

// maxReason is how many bytes of an error a person is shown.
const maxReason = 600

// describe renders an error as a sentence for a person: one line, printable and not long,
// whatever the server has put into it.
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

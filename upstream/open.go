package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// open dials the server and shakes hands, within the start timeout.
func (s *Server) open(ctx context.Context, key connKey) (*Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.spec.Timeouts.Start,
		fmt.Errorf("not ready within the start timeout of %v", s.spec.Timeouts.Start))
	defer cancel()
	var first error
	dialers := s.dialers(key)
	if key.era != mcp.EraUnknown {
		dialers = dialers[:1] // HTTP+SSE has no other era
	}
	for _, d := range dialers {
		conn, err := s.openWith(ctx, d, key)
		if err == nil {
			return conn, nil
		}
		var status *httpError
		if !errors.As(err, &status) || !isRejection(status) {
			return nil, err // reached, or unreachable: another transport changes nothing
		}
		first = cmpErr(first, err)
	}
	return nil, first
}

func (s *Server) openWith(ctx context.Context, d dialer, key connKey) (*Conn, error) {
	_, separate := d.(*streamableDialer)
	conn := newConn(&s.spec, s.log, s.opts.Identity, !separate)
	conn.key, conn.inbox, conn.declared, conn.queue = key, s.heard, s.declares(key), newSerialQueue(&s.behaviour)
	conn.freed = s.freed.ring
	if key == (connKey{}) {
		conn.own.Store(true)
	} else {
		conn.gone = func() { signal(s.tidy) }
	}
	conn.watch.broken = func() {
		if conn.own.Load() {
			signal(s.relist)
			return
		}
		conn.unheard.Store(true)
		signal(s.tidy)
	}
	conn.watch.missed = func(uris []string) {
		for _, uri := range uris {
			s.updated(conn, uri)
		}
	}
	link, err := d.dial(ctx, conn.receive)
	if err != nil {
		conn.end(err)
		return nil, err
	}
	conn.link = link
	conn.spawn(conn.run)
	s.mu.Lock()
	era := s.era
	if s.spec.Era == mcp.EraUnknown && time.Since(s.eraSince) >= eraMemory {
		era = mcp.EraUnknown
	}
	if key.era != mcp.EraUnknown {
		era = key.era
	}
	s.mu.Unlock()
	err = conn.handshake(ctx, era)
	if err == nil && key.era != mcp.EraUnknown {
		err = conn.hasTurned()
	}
	if err != nil {
		l, process := link.(*stdioLink)
		// Whether the end of a process shows before or after the first message
		// is handed to it is chance, and tells nobody anything.
		if cause := link.cause(); cause != nil && errors.Is(err, cause) && (process || wasDelivered(err)) {
			err = cause
		}
		closeConn(conn)
		if process {
			s.mu.Lock()
			s.stderr = l.tail()
			s.mu.Unlock()
		}
		return nil, err
	}
	s.mu.Lock()
	if era != conn.era {
		s.era, s.eraSince = conn.era, time.Now()
		s.probed(conn.era)
	}
	s.mu.Unlock()
	return conn, nil
}

// dialers returns the ways to reach the server, best first.
func (s *Server) dialers(key connKey) []dialer {
	if s.spec.Command != "" {
		return []dialer{&stdioDialer{spec: s.spec, several: s.several(key), log: s.log}}
	}
	to, err := url.Parse(s.spec.URL)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return []dialer{failing{fmt.Errorf("the URL %q is none of http or https", redactURL(s.spec.URL))}}
	}
	to.Fragment = ""
	client := httpClient{
		url: to, pool: s.http, credential: s.opts.Credential,
		principal: key.principal, limits: s.spec.Limits,
	}
	old := &sseDialer{client, s.several(key), s.log}
	switch s.spec.Transport {
	case SSE:
		return []dialer{old}
	case Streamable:
		return []dialer{&streamableDialer{client, s.log}}
	default:
		return []dialer{&streamableDialer{client, s.log}, old}
	}
}

// failing is the dialer of a server that cannot be dialled.
type failing struct{ err error }

func (f failing) dial(context.Context, func(mcp.Message)) (link, error) { return nil, f.err }

// redactURL returns a URL without its user information and query.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(unreadable)"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// declares returns the capabilities to declare on a connection: all that may
// be asked when one principal owns it, none when several share it; and the
// extensions that clients have declared.
func (s *Server) declares(key connKey) []byte {
	if s.several(key) && s.spec.Isolation == IsolateShared {
		return Questions{}.capabilities()
	}
	capabilities := s.spec.Questions.less(key.withheld).capabilities()
	if extensions := s.extensions.known(); extensions != nil {
		capabilities = mcp.SetMember(capabilities, "extensions", extensions)
	}
	return capabilities
}

// several tells whether principals share a connection.
func (s *Server) several(key connKey) bool { return key.principal == "" && s.spec.Local == "" }

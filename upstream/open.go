package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// open dials the server and shakes hands, within the start timeout.
func (s *Server) open(ctx context.Context, key connKey) (*Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.spec.Timeouts.Start,
		fmt.Errorf("not ready within the start timeout of %v", s.spec.Timeouts.Start))
	defer cancel()
	var first error
	names := s.transports()
	if key.era != mcp.EraUnknown {
		names = names[:1] // HTTP+SSE has no other era
	}
	for _, name := range names {
		conn, err := s.openWith(ctx, name, key)
		if err == nil {
			return conn, nil
		}
		var status *transport.StatusError
		if !errors.As(err, &status) || !transport.IsRejection(status) {
			return nil, err // reached, or unreachable: another transport changes nothing
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// transports returns the ways to reach the server, best first.
func (s *Server) transports() []string {
	switch {
	case s.spec.Command != "":
		return []string{string(Stdio)}
	case s.spec.Transport == Auto, s.spec.Transport == "":
		return []string{string(Streamable), string(SSE)}
	}
	return []string{string(s.spec.Transport)}
}

// openWith is open over one transport.
func (s *Server) openWith(ctx context.Context, name string, key connKey) (*Conn, error) {
	kind, ok := transport.KindOf(name)
	if !ok {
		return nil, fmt.Errorf("there is no transport %q", name)
	}
	conn := newConn(&s.spec, s.log, s.opts.Identity, !kind.Separate)
	conn.kind = kind
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
	link, err := kind.Dial(ctx, &transport.Options{
		Command: s.spec.Command, Args: s.spec.Args, Dir: s.spec.Dir, Env: s.spec.Env,
		URL: s.spec.URL, Pool: s.http, Credential: s.opts.Credential, Principal: key.principal,
		Several: s.several(key), Log: s.log,
		Limits: s.spec.Limits.ofLink(),
	}, conn.receive)
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
		process, ok := link.(transport.Process)
		// Whether the end of a process shows before or after the first message
		// is handed to it is chance, and tells nobody anything.
		if cause := link.Cause(); cause != nil && errors.Is(err, cause) && (ok || transport.Delivered(err)) {
			err = cause
		}
		closeConn(conn)
		if ok {
			s.mu.Lock()
			s.stderr = process.Tail()
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

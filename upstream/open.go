package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// errNotReady is the cause if a server takes too long to start.
var errNotReady = errors.New("not ready within the start timeout")

// open dials the server and performs the handshake, within the start timeout.
func (s *Server) open(ctx context.Context, key connKey) (*Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.spec.Timeouts.Start,
		fmt.Errorf("%w of %v", errNotReady, s.spec.Timeouts.Start))
	defer cancel()
	var first error
	names := s.spec.transports()
	if key.era != mcp.EraUnknown {
		names = names[:1] // HTTP+SSE has one era
	}
	for _, name := range names {
		conn, err := s.openWith(ctx, name, key)
		if err == nil {
			return conn, nil
		}
		var status *transport.StatusError
		if !errors.As(err, &status) || !transport.IsRejection(status) {
			return nil, err // another transport would not help
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// openWith is open over one transport.
func (s *Server) openWith(ctx context.Context, name string, key connKey) (*Conn, error) {
	kind, ok := transport.KindOf(name)
	if s.spec.Placed {
		kind = transport.KindPlaced
	}
	if !ok {
		return nil, fmt.Errorf("there is no transport %q", name)
	}
	conn := newConn(&s.spec, s.log, s.opts.Identity, !kind.Separate)
	conn.kind = kind
	conn.key, conn.inbox, conn.declared, conn.queue = key, s.heard, s.declares(key), newSerialQueue(&s.behaviour)
	conn.freed = s.pool.freed.ring
	if key == (connKey{}) {
		conn.own.Store(true)
	} else {
		conn.gone = func() { signal(s.pool.tidy) }
	}
	conn.watch.broken = func() {
		if conn.own.Load() {
			signal(s.relist)
			return
		}
		conn.streamEnded.Store(true)
		signal(s.pool.tidy)
	}
	conn.watch.missed = func(uris []string) {
		for _, uri := range uris {
			s.updated(conn, uri)
		}
	}
	link, err := kind.Dial(ctx, s.linkOptions(key), conn.receive)
	if err != nil {
		conn.life.Cancel(err)
		return nil, err
	}
	conn.link = link
	conn.spawn(conn.run)
	era := s.catalog.eraFor(key)
	err = conn.handshake(ctx, era)
	if err == nil && key.era != mcp.EraUnknown {
		err = conn.usableInOtherEra()
	}
	if err != nil {
		process, ok := link.(transport.Process)
		// Whether a process ends before or after it gets the first message is chance, so
		// both are reported alike.
		if cause := link.Cause(); cause != nil && errors.Is(err, cause) && (ok || transport.Delivered(err)) {
			err = cause
		}
		closeConn(conn)
		if ok {
			err = explained(err, process.Tail().Lines)
			if lines, first := process.Stray(); lines > 0 {
				err = &strayError{err, lines, first}
			}
			if len(s.spec.Withheld) > 0 && lacksNetwork(err) {
				err = &withheldError{err, s.spec.Withheld}
			}
			s.pool.keepTail(process.Tail(), err)
		}
		return nil, err
	}
	if era != conn.era {
		s.catalog.probed(conn.era)
	}
	return conn, nil
}

// linkOptions returns what a link of a connection needs.
func (s *Server) linkOptions(key connKey) *transport.Options {
	return &transport.Options{
		Command: s.spec.Command, Args: s.spec.Args, Dir: s.spec.Dir, Env: s.spec.Env, Sandbox: s.spec.Sandbox,
		URL: s.spec.URL, Pool: s.http, Credential: s.opts.Credential, Principal: key.principal,
		Server: s.spec.Key, Placed: s.opts.Placed,
		Several: s.spec.several(key) || s.spec.Placed, Log: s.log,
		Limits: s.spec.Limits.ofLink(),
	}
}

// explained adds to the failure of a process what helps whoever has written its command.
func explained(err error, lines []string) error {
	exit, ended := errors.AsType[*child.ExitError](err)
	switch {
	case ended && exit.Code == 0 && exit.Signal == "" && exit.Err == nil && !exit.Stopped && exit.LastLine == "":
		return fmt.Errorf("%w; a server runs until its stdin ends: check its args, which may have to say that it shall use stdio", err)
	case ended && noTerminal.MatchString(exit.LastLine):
		return fmt.Errorf("%w; servers have no terminal: leave out options that ask for one, such as -t of docker", err)
	case !ended && errors.Is(err, errNotReady):
		if line := child.LastWords(lines); line != "" {
			return fmt.Errorf("%w; its last line on stderr: %s", err, transport.Excerpt([]byte(line)))
		}
	}
	return err
}

// noTerminal matches what programs say that want a terminal.
var noTerminal = regexp.MustCompile(`(?i)\bnot a (tty|terminal)\b|must be run (in|on|from) a (tty|terminal)`)

// strayError is the failure of a server that writes to its stdout what are no messages.
type strayError struct {
	error
	lines int64
	first string
}

// Error implements error.
func (e *strayError) Error() string {
	what := "a line to stdout that is not an MCP message"
	if e.lines > 1 {
		what = fmt.Sprintf("%d lines to stdout that are not MCP messages, the first", e.lines)
	}
	return fmt.Sprintf("%v; it wrote %s: %q", e.error, what, e.first)
}

// Unwrap returns the failure itself.
func (e *strayError) Unwrap() error { return e.error }

// withheldError is the failure of a process that may lack variables of the gateway.
type withheldError struct {
	error
	names []string
}

// Error implements error.
func (e *withheldError) Error() string {
	return fmt.Sprintf("%v; toolgate has %s and does not hand that on to this server: see its env_inherit", e.error, strings.Join(e.names, ", "))
}

// Unwrap returns the failure itself.
func (e *withheldError) Unwrap() error { return e.error }

// networkWords match what programs say that reach no network, or trust no certificate.
var networkWords = regexp.MustCompile(`(?i)certificate|x509|ssl|tls|proxy|getaddrinfo|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|timed? ?out|dns|name resolution|name or service not known|resolve|connect|network|error sending request|no matching distribution`)

// lacksNetwork tells whether a process may have failed because it has not reached the
// network: by what it said, or because it was not ready in time.
func lacksNetwork(err error) bool {
	if exit, ok := errors.AsType[*child.ExitError](err); ok {
		return networkWords.MatchString(exit.LastLine)
	}
	return errors.Is(err, errNotReady)
}

// declares returns the capabilities to declare on a connection: all questions that are
// allowed if one principal owns it, none if several share it, and the extensions that
// clients have declared.
func (s *Server) declares(key connKey) []byte {
	if s.spec.Placed || s.spec.several(key) && s.spec.Isolation == IsolateShared {
		return Questions{}.capabilities()
	}
	capabilities := s.spec.Questions.less(key.withheld).capabilities()
	if extensions := s.extensions.known(); extensions != nil {
		capabilities = mcp.SetMember(capabilities, "extensions", extensions)
	}
	return capabilities
}

// openBeside implements [opener].
func (s *Server) openBeside(ctx context.Context, key connKey) (*Conn, error) {
	conn, err := s.open(ctx, key)
	return conn, s.catalog.openedOtherEra(ctx, key, err)
}

// openedBeside implements [opener].
func (s *Server) openedBeside(ctx context.Context, key connKey, conn *Conn, promoted, unread bool) {
	if unread {
		signal(s.refetch) // now that there is a connection for it, its lists are read too
	}
	s.resubscribe(ctx, conn)
	if key == (connKey{era: key.era}) && key.era != mcp.EraUnknown && !promoted {
		s.readOther(ctx, conn)
	}
}

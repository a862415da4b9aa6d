package listen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/descent"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/http1"
	"github.com/toolgate/toolgate/proxy/limit"
)

// stopTime is how long requests may finish when the gateway ends, besides the calls
// among them, for which the gateway itself waits.
const stopTime = 5 * time.Second

// Front is a TCP listener with the bound of its connections and its certificate.
type Front struct {
	net.Listener
	conns *limit.Conns
	certs *Certificates // nil for plain HTTP
	log   *slog.Logger
}

// InUseError says that another process listens on an address.
type InUseError struct{ Address string }

// Error implements error.
func (e *InUseError) Error() string {
	return e.Address + " is in use; choose another address with --listen"
}

// Open opens the main listener of a configuration; nil when it has none. The error may be
// an [InUseError].
func Open(ctx context.Context, c *config.Config) (net.Listener, error) {
	if c.Toolgate.Listen.HTTP == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Toolgate.Listen.HTTP)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, &InUseError{Address: c.Toolgate.Listen.HTTP}
		}
		if errors.Is(err, syscall.EACCES) {
			return nil, failure.Newf(failure.Unreachable, "listen.http: this user may not listen on %s, because the system keeps low ports, such as those below 1024, for root; choose another port, such as --listen 127.0.0.1:7777", c.Toolgate.Listen.HTTP)
		}
		return nil, failure.Newf(failure.Unreachable, "listen.http: %w; choose an address of this machine that you may use with --listen, such as 127.0.0.1:7777", err)
	}
	return l, nil
}

// NewFront returns the front of a listener. certs is nil for plain HTTP.
func NewFront(l net.Listener, certs *Certificates, connections int, log *slog.Logger) *Front {
	f := &Front{conns: limit.NewConns(connections, log), certs: certs, log: log}
	f.Listener = f.conns.Listener(l)
	if certs != nil {
		certs.log = log
		f.Listener = certs.listener(f.Listener)
	}
	return f
}

// Trust lets reverse proxies have all connections. It is called before Serve.
func (f *Front) Trust(p limit.Proxies) { f.conns.Trust(p) }

// Connections is how many connections clients may have: as many as are set,
// and no more than half of the files that this process may open, so that servers,
// the store and the log have the others.
func Connections(set int) int {
	if most := openFiles(); most > 0 {
		return max(2, min(set, most/2))
	}
	return set
}

// Serve serves the front until the context ends, and then as long as requests need
// to finish: longer is asked for when the context has ended.
func (f *Front) Serve(ctx context.Context, h http.Handler, longer func() time.Duration) error {
	server := proxy.NewServer(h)
	server.ConnState = f.conns.State
	server.ErrorLog = slog.NewLogLogger(&serverLog{log: f.log}, slog.LevelWarn)
	server.ConnContext, server.BaseContext = connContext, baseContext(ctx)
	if f.certs != nil { // HTTP/2 or HTTP/1.1, as the client wants
		return serveWith(ctx, server, f, longer)
	}
	return serveWith(ctx, http1.New(server), f, longer)
}

// Serve serves a listener until the context ends, and then as long as requests need
// to finish.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := proxy.NewServer(h)
	server.ConnContext, server.BaseContext = connContext, baseContext(ctx)
	return serveWith(ctx, server, l, func() time.Duration { return 0 })
}

func connContext(ctx context.Context, c net.Conn) context.Context {
	return descent.ConnContext(limit.ConnContext(ctx, c), c)
}

// baseContext returns the context of all requests, which outlive that of the listener.
func baseContext(ctx context.Context) func(net.Listener) context.Context {
	return func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
}

// server is an [http.Server], or one like it.
type server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
	Close() error
}

// serveWith serves a listener by a server until the context ends. Requests may need
// longer than usual by some time, which is asked for then.
func serveWith(ctx context.Context, server server, l net.Listener, longer func() time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }() // ends with Shutdown below
	select {
	case err := <-done:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), longer()+stopTime)
	defer cancel()
	if server.Shutdown(grace) != nil {
		server.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// maxServerLines bounds how many lines a minute a serverLog writes of what clients
// cause, such as handshakes that fail.
const maxServerLines = 10

// serverLog writes what the server of the standard library says of connections into
// the log of the gateway: an [slog.Handler] behind its ErrorLog. It is safe for
// concurrent use.
type serverLog struct {
	log *slog.Logger

	mu      sync.Mutex
	since   time.Time
	lines   int
	dropped int
}

// Enabled implements [slog.Handler].
func (s *serverLog) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements [slog.Handler]; lines of the standard library have none.
func (s *serverLog) WithAttrs([]slog.Attr) slog.Handler { return s }

// WithGroup implements [slog.Handler].
func (s *serverLog) WithGroup(string) slog.Handler { return s }

// Handle implements [slog.Handler] for one line.
func (s *serverLog) Handle(_ context.Context, line slog.Record) error {
	text := strings.TrimSpace(line.Message)
	if strings.Contains(text, "panic serving") {
		s.log.Error("panic in a request", "err", text)
		return nil
	}
	now := time.Now()
	s.mu.Lock()
	dropped := 0
	if now.Sub(s.since) >= time.Minute {
		dropped, s.since, s.lines, s.dropped = s.dropped, now, 0, 0
	}
	s.lines++
	told := s.lines <= maxServerLines
	if !told {
		s.dropped++
	}
	s.mu.Unlock()
	if dropped > 0 {
		s.log.Warn("connections failed that were not logged one by one", "number", dropped)
	}
	if told {
		s.log.Warn("a connection failed", "err", text)
	}
	return nil
}

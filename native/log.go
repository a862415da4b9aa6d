package native

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/toolgate/toolgate/internal/child"
)

// logsPerSecond is how many lines of a plugin are logged in a second; the others are
// counted.
const logsPerSecond = 100

// logger returns the hclog logger for go-plugin. Lines of a plugin's standard error go
// to the gateway's log with their level, those of go-plugin itself with debug.
func (p *Plugin) logger() hclog.Logger {
	il := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: p.spec.Key, Output: io.Discard, Level: hclog.Trace})
	il.RegisterSink(&logSink{log: p.log, own: p.spec.Key})
	return il
}

// logSink writes lines to the log. It is safe for concurrent use.
type logSink struct {
	log *slog.Logger
	own string // the logger name of go-plugin itself

	mu     sync.Mutex
	second time.Time
	passed int
}

// Accept implements hclog.SinkAdapter.
func (s *logSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	at := slog.LevelDebug
	from := "go-plugin"
	if name != s.own {
		from = "plugin"
		switch level {
		case hclog.Error:
			at = slog.LevelError
		case hclog.Warn:
			at = slog.LevelWarn
		case hclog.Info:
			at = slog.LevelInfo
		case hclog.NoLevel, hclog.Trace, hclog.Debug, hclog.Off:
		}
	}
	if !s.log.Enabled(context.Background(), at) || !s.pass(time.Now()) {
		return
	}
	attrs := []any{"from", from, "text", printable([]byte(msg))}
	for i := 0; i+1 < len(args); i += 2 {
		attrs = append(attrs, slog.String(fmt.Sprint(args[i]), printable(fmt.Append(nil, args[i+1]))))
	}
	s.log.Log(context.Background(), at, "plugin output", attrs...)
}

// pass reports whether another line may be logged in this second.
func (s *logSink) pass(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.second) >= time.Second {
		if s.passed > logsPerSecond {
			s.log.Warn("plugin writes more than is logged; the rest was dropped", "lines", s.passed-logsPerSecond)
		}
		s.second, s.passed = now, 0
	}
	s.passed++
	return s.passed <= logsPerSecond
}

// printable returns what a plugin wrote, safe to print.
func printable(text []byte) string { return strings.TrimSpace(child.Printable(text, false)) }

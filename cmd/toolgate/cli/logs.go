package cli

import (
	"log/slog"
	"os"

	"golang.org/x/term"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/logs"
	"github.com/toolgate/toolgate/proxy/redact"
)

// logger writes to stderr: stdout belongs to what a command is asked for, and
// in stdio mode to MCP alone. Flags come before the configuration, which may be
// nil. What looks like a credential is never written; secrets of the
// configuration are not from [instance.hideSecrets] on.
func (o *options) logger(c *config.Config) (*slog.Logger, *logs.Writer) {
	w := logs.NewWriter(os.Stderr)
	if r, err := redact.New(redact.Options{Tokens: true}); err == nil { // without patterns there is no error
		w.Redact(r)
	}
	var settings config.Log
	if c != nil {
		settings = c.Toolgate.Log
	}
	level := slog.LevelWarn
	switch {
	case o.verbose || !o.quiet && settings.Level == "debug":
		level = slog.LevelDebug
	case o.quiet || settings.Level == "error":
		level = slog.LevelError
	case settings.Level == "info":
		level = slog.LevelInfo
	}
	format := logs.JSON
	if settings.Format == "text" || settings.Format != "json" && term.IsTerminal(int(os.Stderr.Fd())) {
		format = logs.Text
	}
	return logs.New(w, format, level), w
}

// Package command has what the commands share: their flags, the configuration that they
// read, and the gateway that they talk to.
package command

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/logs"
	"github.com/toolgate/toolgate/proxy/redact"
	"github.com/toolgate/toolgate/upstream"
)

// Options are the flags that all commands share.
type Options struct {
	Config  string
	With    []string // further files whose servers join those of Config
	Listen  string
	Output  string
	Verbose bool
	Quiet   bool
	Live    *screen.Live // where `up` draws on a terminal; nil elsewhere
	told    bool         // which gateway a command found
	Set     map[string]string

	// ShippedSeed has the gateway describe the tools that it knows, see
	// [registry.Settings].
	ShippedSeed bool

	// Awaits is true for commands that serve. They start without their database, and
	// refuse what needs it until it is there.
	Awaits bool
	// WaitFirst is how long the first lists wait for servers that have never been seen.
	WaitFirst time.Duration
	// View is what the list of tools of a client holds; empty for all.
	View string
	// SettleWithin is how long a command waits for the servers of a gateway that it
	// started for itself; zero stands for settleTime.
	SettleWithin time.Duration
}

// Daemon returns what a gateway takes from the flags.
func (o *Options) Daemon() daemon.Options {
	return daemon.Options{Log: o.Logger, Read: o.ReadConfig, Awaits: o.Awaits, WaitFirst: o.WaitFirst, HomeClients: homeClients}
}

// OutputFlag adds -o to a command.
func (o *Options) OutputFlag(c *cobra.Command) {
	c.PreRunE = func(*cobra.Command, []string) error { return output.Check(o.Output) }
	c.Flags().StringVarP(&o.Output, "output", "o", envOr("TOOLGATE_OUTPUT", "table"), "table, wide, json, yaml or name")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(output.Formats, cobra.ShellCompDirectiveNoFileComp))
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// Print writes a table in the format of -o.
func (o *Options) Print(w io.Writer, t output.Table) error { return output.Print(w, o.Output, t) }

// Logger writes to stderr: stdout belongs to what a command is asked for, and
// in stdio mode to MCP alone. Flags come before the configuration, which may be
// nil. What looks like a credential is never written; secrets of the
// configuration are not from [daemon.New] on.
func (o *Options) Logger(c *config.Config) (*slog.Logger, *logs.Writer) {
	out := io.Writer(os.Stderr)
	if o.Live != nil {
		out = o.Live
	}
	w := logs.NewWriter(out)
	if r, err := redact.New(redact.Options{Tokens: true}); err == nil { // without patterns there is no error
		w.Redact(r)
	}
	var settings logs.Settings
	if c != nil {
		settings = c.Toolgate.Log
	}
	level := slog.LevelWarn
	switch {
	case o.Verbose || !o.Quiet && settings.Level == "debug":
		level = slog.LevelDebug
	case o.Quiet || settings.Level == "error":
		level = slog.LevelError
	case settings.Level == "info":
		level = slog.LevelInfo
	}
	format := logs.JSON
	if settings.Format == "text" || settings.Format != "json" && term.IsTerminal(int(os.Stderr.Fd())) {
		format = logs.Text
	}
	log := logs.New(w, format, level)
	if o.Live != nil {
		log = slog.New(withoutStates{log.Handler()})
	}
	return log, w
}

// withoutStates is the log on a terminal on which `up` says itself which servers fail.
type withoutStates struct{ slog.Handler }

func (h withoutStates) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == upstream.NotConnected {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h withoutStates) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutStates{h.Handler.WithAttrs(attrs)}
}

func (h withoutStates) WithGroup(name string) slog.Handler {
	return withoutStates{h.Handler.WithGroup(name)}
}

// Package cli is the command line, one command per file. A command starts a gateway or
// asks a running one over the control API, and prints the answer. Only this package knows
// exit codes.
package cli

import (
	"context"
	"io"
	"log" //nolint:depguard // its output is made safe here, and nothing is written to it
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toolgate/toolgate/cmd/toolgate/demo"
	"github.com/toolgate/toolgate/cmd/toolgate/man"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/cmd/toolgate/secrets"
	"github.com/toolgate/toolgate/cmd/toolgate/service"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/descent"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/logs"
	"github.com/toolgate/toolgate/proxy/redact"
	"github.com/toolgate/toolgate/upstream"
)

// options are the flags that all commands share.
type options struct {
	config  string
	with    []string // further files whose servers join those of config
	listen  string
	output  string
	verbose bool
	quiet   bool
	live    *screen.Live // where `up` draws on a terminal; nil elsewhere
	told    bool         // which gateway a command found
	set     map[string]string

	// awaits is true for commands that serve. They start without their database, and
	// refuse what needs it until it is there.
	awaits bool
	// waitFirst is how long the first lists wait for servers that have never been seen.
	waitFirst time.Duration
	// settleWithin is how long a command waits for the servers of a gateway that it
	// started for itself; zero stands for settleTime.
	settleWithin time.Duration
}

// group is a group of commands in `toolgate --help`.
type group struct {
	title    string
	commands []*cobra.Command
}

// groups are the commands that help lists, in the order in which a new user needs them.
func groups(o *options) []group {
	return []group{
		{"Start", []*cobra.Command{
			newUp(o), newStdio(o), newImport(o), newConnect(o), newAdd(o), newRemove(o), newTrust(o),
		}},
		{"Look", []*cobra.Command{
			newList(o), newTools(o), newCall(o), newStatus(o), newTop(o), newLogs(o),
		}},
		{"Check", []*cobra.Command{
			newValidate(o), newDoctor(o), newConfig(o), newWhy(o),
		}},
		{"Decide", []*cobra.Command{
			newCatalog(o), newApprovals(o), newModeCommand(o), newPolicyCommand(o), newBudgetCommand(o),
		}},
		{"Operate", []*cobra.Command{
			newReload(o), service.New(fileArgument(o), o.acceptedFile), newServers(o), newLogin(o), newLogout(o), secrets.New(), newKey(), newAuditCommand(o), newStoreCommand(o),
		}},
	}
}

// unlisted returns a command that can be typed and is not listed.
func unlisted(c *cobra.Command) *cobra.Command {
	c.Hidden = true
	return c
}

// usageTemplate is that of cobra without the help command, which everybody knows.
func usageTemplate(cobras string) string {
	cobras = strings.ReplaceAll(cobras, "{{if not .AllChildCommandsHaveGroup}}", "{{if false}}") // all others are hidden
	return strings.ReplaceAll(cobras, `(or .IsAvailableCommand (eq .Name "help"))`, ".IsAvailableCommand")
}

func newRoot() *cobra.Command {
	cobra.EnableCommandSorting = false // groups have an order of their own
	o := &options{}
	root := &cobra.Command{
		Use:   "toolgate",
		Short: "One gateway between MCP clients and everything they can call",
		Long: `toolgate is a gateway between MCP clients and MCP servers. It takes a client's own
configuration file, runs every server in it, and offers all of them behind one
URL or one stdio process.`,
		Version:       versionLine(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.StringVarP(&o.config, "config", "c", "", "configuration `file`: a client's own or a toolgate.yaml")
	flags.StringVar(&o.config, "file", "", "the same as --config")
	_ = flags.MarkHidden("file") // there is such a flag
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "log everything")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "log errors only and show no progress")
	flags.StringToStringVar(&o.set, "set", nil, "override a `setting`, such as limits.body=1MiB")
	flags.Lookup("set").DefValue = "" // not []
	for _, g := range groups(o) {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand( // what programs call, and what people may type besides
		newBreakerCommand(o), newSpiceDBCommand(o), newWhoCan(o), newLogins(o), newDisconnect(o), unlisted(newLint(o)), unlisted(newUsage(o)),
		unlisted(newRestart(o)), unlisted(newVersion()), newMan(), newDemo(), newHealthcheck(), newStop(),
	)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.InitDefaultCompletionCmd()
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
	root.InitDefaultHelpCmd()
	explainHelp(root)
	explainUsage(root)
	return root
}

// daemon returns what a gateway takes from the flags.
func (o *options) daemon() daemon.Options {
	return daemon.Options{Log: o.logger, Read: o.readConfig, Awaits: o.awaits, WaitFirst: o.waitFirst}
}

// outputFlag adds -o to a command.
func (o *options) outputFlag(c *cobra.Command) {
	c.PreRunE = func(*cobra.Command, []string) error { return checkOutput(o.output) }
	c.Flags().StringVarP(&o.output, "output", "o", envOr("TOOLGATE_OUTPUT", "table"), "table, wide, json, yaml or name")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// word returns the only argument of a command; empty without one.
func word(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return ""
}

// Main runs the command that the arguments of the process name, and returns its exit
// code.
func Main() int {
	log.SetOutput(logs.NewWriter(os.Stderr)) // for messages of libraries
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	descent.EndAdopted()
	return report(err)
}

// logger writes to stderr: stdout belongs to what a command is asked for, and
// in stdio mode to MCP alone. Flags come before the configuration, which may be
// nil. What looks like a credential is never written; secrets of the
// configuration are not from [daemon.New] on.
func (o *options) logger(c *config.Config) (*slog.Logger, *logs.Writer) {
	out := io.Writer(os.Stderr)
	if o.live != nil {
		out = o.live
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
	log := logs.New(w, format, level)
	if o.live != nil {
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

// newMan writes the manual pages, for those who package the program.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into a folder",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return failure.New(failure.Config, man.Write(args[0], cmd.Root(), exitCodesText()))
		},
	}
}

// newDemo serves the demo to a gateway that has no configuration.
func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:    "demo-server",
		Short:  "Serve the demo tools over stdio",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return demo.Serve(cmd.Context()) },
	}
}

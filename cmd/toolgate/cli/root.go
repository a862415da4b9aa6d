// Package cli is the command line, one command per file. A command starts a gateway or
// asks a running one over the control API, and prints the answer. Only this package knows
// exit codes.
package cli

import (
	"context"
	"log" //nolint:depguard // its output is made safe here, and nothing is written to it
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/decide"
	"github.com/toolgate/toolgate/cmd/toolgate/demo"
	"github.com/toolgate/toolgate/cmd/toolgate/man"
	"github.com/toolgate/toolgate/cmd/toolgate/secrets"
	"github.com/toolgate/toolgate/cmd/toolgate/service"
	"github.com/toolgate/toolgate/internal/descent"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/logs"
)

// group is a group of commands in `toolgate --help`.
type group struct {
	title    string
	commands []*cobra.Command
}

// groups are the commands that help lists, in the order in which a new user needs them.
func groups(o *command.Options) []group {
	return []group{
		{"Start", []*cobra.Command{
			newUp(o), newStdio(o), newImport(o), newConnect(o), newAdd(o), newRemove(o), newTrust(o),
		}},
		{"Look", []*cobra.Command{
			newList(o), newTools(o), newFind(o), newCall(o), newStatus(o), newTop(o), newConsole(o), newLogs(o), newRuns(o),
		}},
		{"Check", []*cobra.Command{
			newValidate(o), newDoctor(o), newConfig(o), newWhy(o),
		}},
		{"Decide", []*cobra.Command{
			decide.NewCatalog(o), decide.NewApprovals(o), decide.NewMode(o), newPolicyCommand(o), decide.NewBudget(o),
		}},
		{"Operate", []*cobra.Command{
			newReload(o), newWorker(o), service.New(command.FilesArgument(o), o.AcceptedFiles), newServers(o), newLogin(o), newLogout(o), secrets.New(), newKey(), newAuditCommand(o), newStoreCommand(o),
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
	o := &command.Options{}
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
	flags.StringVarP(&o.Config, "config", "c", "", "configuration `file`: a client's own or a toolgate.yaml")
	flags.StringVar(&o.Config, "file", "", "the same as --config")
	_ = flags.MarkHidden("file") // there is such a flag
	flags.BoolVarP(&o.Verbose, "verbose", "v", false, "log everything")
	flags.BoolVarP(&o.Quiet, "quiet", "q", false, "log errors only and show no progress")
	flags.StringToStringVar(&o.Set, "set", nil, "override a `setting`, such as limits.body=1MiB")
	flags.Lookup("set").DefValue = "" // not []
	for _, g := range groups(o) {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand( // what programs call, and what people may type besides
		newBreakerCommand(o), decide.NewSpiceDB(o), newWhoCan(o), newLogins(o), newDisconnect(o), unlisted(newLint(o)), unlisted(newUsage(o)),
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

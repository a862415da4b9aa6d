package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/store"
)

// manageTime bounds an operation on a whole store.
const manageTime = 30 * time.Minute

func newStoreCommand(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "store",
		Short: "Check the store, or back it up",
		Long:  `Check the store of a configuration, or make a copy of it, even while a gateway uses it.`,
	}
	c.AddCommand(&cobra.Command{
		Use: "check", Short: "Read the whole store and report damage", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStore(o, cmd.Context(), func(ctx context.Context, s *store.Store) error {
				if err := s.Check(ctx); err != nil {
					return err
				}
				output.Say("%s: no damage found\n", s.Path())
				return nil
			})
		},
	}, &cobra.Command{
		Use:   "backup TO",
		Short: "Copy the store to a file, as of one instant",
		Long: `Copy the store to a new file, as of one instant. The copy is a complete store: replace
a damaged one with it while no gateway runs. For a PostgreSQL database use the
server's own backup tools.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStore(o, cmd.Context(), func(ctx context.Context, s *store.Store) error {
				if err := s.Backup(ctx, args[0]); err != nil {
					return err
				}
				output.Say("%s: copied to %s\n", s.Path(), args[0])
				return nil
			})
		},
	})
	return c
}

// withStore calls use with the store of a configuration, opened for reading while others
// may write it.
func withStore(o *command.Options, ctx context.Context, use func(context.Context, *store.Store) error) error {
	c, err := o.LoadTarget(ctx)
	if err != nil {
		return err
	}
	reading, err := statedir.StoreForReading(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, manageTime)
	defer cancel()
	s, err := store.Open(ctx, reading)
	if err != nil {
		return failure.New(failure.Unreachable, err)
	}
	return failure.New(failure.Unreachable, errors.Join(use(ctx, s), s.Close()))
}

// This file has the commands for the tools that administrators declare in the store, for
// every gateway that shares it.

// newDeclared groups the commands for the tools of the store.
func newDeclared(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "store",
		Short: "Manage the tools that are declared in the store of the running gateway",
		Long: `Manage the tools that administrators declare in the store of the running gateway, for
every gateway that shares the store.`,
	}
	all := newDeclaring(o)
	all[2].Use = "ls"
	c.AddCommand(all...)
	return c
}

// newDeclaring returns the commands for the tools of the store.
func newDeclaring(o *command.Options) []*cobra.Command {
	var reason string
	declare := &cobra.Command{
		Use:   "declare DOCUMENT",
		Short: "Declare the tools of a document in the store of the running gateway",
		Long: `Declare the tools of a document in the store of the running gateway, for every gateway
that shares the store. The document is like a file of tool_files without variables and
relative paths. Its tools replace those of the same names. Either all of them are
declared or none.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := os.ReadFile(args[0])
			if err != nil {
				return failure.New(failure.Config, err)
			}
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				did, err := control.DeclareTools(cmd.Context(), admin.Declaration{File: args[0], Data: data, Reason: reason})
				if err != nil {
					return err
				}
				for _, what := range did.Changes {
					output.Say("%s\n", what)
				}
				return nil
			})
		},
	}
	undeclare := &cobra.Command{
		Use: "undeclare NAME", Short: "Remove a tool from the store of the running gateway", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				if err := control.UndeclareTool(cmd.Context(), args[0], reason); err != nil {
					return err
				}
				output.Say("%s is no longer declared\n", args[0])
				return nil
			})
		},
	}
	list := &cobra.Command{
		Use: "declared", Short: "List the tools that are declared in the store of the running gateway", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				all, err := control.DeclaredTools(cmd.Context())
				if err != nil {
					return err
				}
				t := output.Table{Header: []string{"TOOL", "TYPE", "TARGET", "BY", "PROBLEM"}, Data: all, Empty: "no tools are declared in the store"}
				for _, d := range all {
					t.Rows = append(t.Rows, []string{d.Name, d.Type, d.Target, d.Actor, d.Problem})
					t.Names = append(t.Names, d.Name)
				}
				return o.Print(os.Stdout, t)
			})
		},
	}
	o.OutputFlag(list)
	for _, c := range []*cobra.Command{declare, undeclare} {
		c.Flags().StringVar(&reason, "reason", "", "the reason, for the audit log")
	}
	return []*cobra.Command{declare, undeclare, list}
}

// newDynamic groups the commands for the tools that agents register.
func newDynamic(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "dynamic",
		Short: "Manage the tools that agents have registered at the running gateway",
		Long: `Manage the tools that agents have registered from templates, with
toolgate__register_tool. Each of them is served to the caller who registered it and to
nobody else. A tool whose template has changed since is not served.`,
	}
	list := &cobra.Command{
		Use: "ls", Short: "List the tools that agents have registered", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				all, err := control.DynamicTools(cmd.Context())
				if err != nil {
					return err
				}
				t := output.Table{Header: []string{"TOOL", "TEMPLATE", "FOR", "PROBLEM"}, Data: all, Empty: "no tools are registered"}
				for i := range all {
					d := &all[i]
					t.Rows = append(t.Rows, []string{d.Name, d.Template, strings.TrimPrefix(d.Subject+" of "+d.Tenant, " of "), d.Problem})
					t.Names = append(t.Names, d.Name)
				}
				return o.Print(os.Stdout, t)
			})
		},
	}
	o.OutputFlag(list)
	var reason string
	remove := &cobra.Command{
		Use: "rm NAME", Short: "Remove a tool that an agent has registered", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				if err := control.RemoveDynamicTool(cmd.Context(), args[0], reason); err != nil {
					return err
				}
				output.Say("%s is no longer registered\n", args[0])
				return nil
			})
		},
	}
	remove.Flags().StringVar(&reason, "reason", "", "the reason, for the audit log")
	c.AddCommand(list, remove)
	return c
}

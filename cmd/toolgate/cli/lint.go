package cli

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
)

func newLint(o *command.Options) *cobra.Command {
	var names []string
	c := &cobra.Command{
		Use:   "lint",
		Short: "Check the tools against each client's limits",
		Long: `Check the tools as clients see them: their number, names, descriptions and schemas.
lint says which tools a client shortens, leaves out or confuses with another. If a
client named by --client has a problem, the exit code is that of a configuration
error.

Clients: ` + strings.Join(clients.Names(), ", ") + `.`,
		Example: "  toolgate tools lint --client cursor,codex",
		Args:    command.FileArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen := clients.All()
			if len(names) > 0 {
				chosen = chosen[:0]
				for _, name := range names {
					client, err := clientNamed(name)
					if err != nil {
						return err
					}
					chosen = append(chosen, client)
				}
			}
			return withClient(o, cmd.Context(), func(ctx context.Context, client *lineclient.Client, status statusFunc) error {
				err := lintTools(o, ctx, client, chosen, len(names) > 0)
				if now, failed := status(ctx); failed == nil && command.Talks(o) {
					if starting := startingOf(now.Servers); len(starting) > 0 {
						output.Warn("still starting, and not checked: %s", strings.Join(starting, ", "))
					}
				}
				return err
			})
		},
	}
	c.Flags().StringSliceVar(&names, "client", nil, "`clients` to check; all by default")
	_ = c.RegisterFlagCompletionFunc("client", completeClients)
	o.OutputFlag(c)
	return c
}

func lintTools(o *command.Options, ctx context.Context, client *lineclient.Client, chosen []*clients.Client, named bool) error {
	items, err := client.All(ctx, mcp.Tool)
	if err != nil {
		return refusedError(err)
	}
	tools := make([]clients.Tool, len(items))
	for i, raw := range items {
		tools[i].Name, _ = mcp.LookupString(raw, "name")
		tools[i].Description, _ = mcp.LookupString(raw, "description")
		tools[i].Schema = mcp.Lookup(raw, "inputSchema")
	}
	problems := []clients.Problem{}
	t := output.Table{Header: []string{"CLIENT", "RULE", "TOOL", "WHAT", "FIX"}}
	for _, c := range chosen {
		for _, p := range c.Lint(tools) {
			problems = append(problems, p)
			t.Rows = append(t.Rows, []string{p.Client, p.Rule, p.Tool, p.What, p.Fix})
			t.Names = append(t.Names, p.Client+" "+p.Rule+" "+p.Tool)
		}
	}
	t.Data = map[string]any{"tools": len(tools), "problems": problems}
	if len(problems) > 0 || o.Output != "table" && o.Output != "wide" {
		if err := o.Print(os.Stdout, t); err != nil {
			return err
		}
	}
	if o.Output == "table" || o.Output == "wide" {
		output.Say("%s, %s, %s\n", screen.Count(len(tools), "tool"), screen.Count(len(chosen), "client"), screen.Count(len(problems), "problem"))
	}
	if named && len(problems) > 0 {
		return failure.Newf(failure.Config, "%s", screen.Count(len(problems), "problem"))
	}
	return nil
}

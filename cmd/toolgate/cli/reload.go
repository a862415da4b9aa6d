package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/admin"
)

func newReload(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "reload",
		Short: "Make the running gateway read its configuration again",
		Long: `Make the running gateway read its configuration again and print what changed. Servers
whose settings are unchanged keep their connections. Settings that a gateway reads only
when it starts, such as the address it listens on, are listed as taking effect at the
next start.`,
		Args: command.FileArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				got, err := control.Reload(cmd.Context())
				if err != nil {
					return err
				}
				return printReloaded(o, &got)
			})
		},
	}
	o.OutputFlag(c)
	return c
}

// printReloaded prints what a reload did.
func printReloaded(o *command.Options, r *admin.Reloaded) error {
	t := output.Table{Data: r, Names: slices.Concat(r.Applied, r.AtNextStart)}
	switch {
	case r.File == "":
		t.Header = []string{"reloaded"}
	default:
		t.Header = []string{"reloaded " + strings.Join(append([]string{r.File}, r.With...), ", ")}
	}
	for _, what := range r.Applied {
		t.Rows = append(t.Rows, []string{"  " + what})
	}
	if len(r.Applied) == 0 {
		t.Rows = append(t.Rows, []string{"  nothing to apply"})
	}
	t.Rows = append(t.Rows, laterRows(r.AtNextStart)...)
	for _, text := range r.Warnings {
		t.Rows = append(t.Rows, []string{"warning: " + text})
	}
	return o.Print(os.Stdout, t)
}

// laterRows are the lines that name settings for the next start.
func laterRows(paths []string) [][]string {
	if len(paths) == 0 {
		return nil
	}
	rows := [][]string{{"takes effect at the next start:"}}
	for _, path := range paths {
		rows = append(rows, []string{"  setting " + path})
	}
	return rows
}

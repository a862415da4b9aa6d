package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/admin"
)

func newReload(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:   "reload",
		Short: "Make the running gateway read its configuration again",
		Long: `Make the running gateway read its configuration again and print what changed. Servers
whose settings are unchanged keep their connections. Settings that a gateway reads only
when it starts, such as the address it listens on, are listed as taking effect at the
next start.`,
		Args: fileArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.withControl(cmd.Context(), func(control *admin.Client) error {
				got, err := control.Reload(cmd.Context())
				if err != nil {
					return err
				}
				return o.printReloaded(&got)
			})
		},
	}
	o.outputFlag(c)
	return c
}

// printReloaded prints what a reload did.
func (o *options) printReloaded(r *admin.Reloaded) error {
	t := table{data: r, names: slices.Concat(r.Applied, r.AtNextStart)}
	switch {
	case r.File == "":
		t.header = []string{"reloaded"}
	default:
		t.header = []string{"reloaded " + strings.Join(append([]string{r.File}, r.With...), ", ")}
	}
	for _, what := range r.Applied {
		t.rows = append(t.rows, []string{"  " + what})
	}
	if len(r.Applied) == 0 {
		t.rows = append(t.rows, []string{"  nothing to apply"})
	}
	t.rows = append(t.rows, laterRows(r.AtNextStart)...)
	for _, text := range r.Warnings {
		t.rows = append(t.rows, []string{"warning: " + text})
	}
	return o.print(os.Stdout, t)
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

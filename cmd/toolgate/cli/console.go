package cli

import (
	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/admin"
)

func newConsole(o *command.Options) *cobra.Command {
	var noBrowser bool
	c := &cobra.Command{
		Use:   "console",
		Short: "Open the console of the running gateway in a browser",
		Long: `Open the console of the running gateway in a browser of this machine, by a link that
signs it in. The link works once, for one minute. It is printed as well, because there may
be no browser to open.`,
		Example: "  toolgate console\n  toolgate console --no-browser",
		Args:    command.FileArgument(o),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				link, err := control.ConsoleLink(cmd.Context())
				if err != nil {
					return err
				}
				output.Say("%s\n", link)
				if !noBrowser {
					openBrowser(cmd.Context(), link)
				}
				return nil
			})
		},
		ValidArgsFunction: completeFiles,
	}
	c.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the link; do not open the browser")
	return c
}

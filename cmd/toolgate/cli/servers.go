package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/admin"
)

func newServers(o *options) *cobra.Command {
	var path, reason string
	c := &cobra.Command{
		Use:   "servers",
		Short: "Look after the servers that agents have added",
		Long: `Look after the servers that agents have added out of those that the file offers
(servers.NAME.offer). One is there for who added it alone, until it is promoted.`,
	}
	c.PersistentFlags().StringVar(&path, "file", "", "configuration `file`, like the argument of up")
	ls := &cobra.Command{
		Use: "ls", Short: "List them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withControl(path, func(control *admin.Client) error {
				list, err := control.AddedServers(cmd.Context())
				if err != nil {
					return err
				}
				t := table{header: []string{"SERVER", "OFFER", "FOR", "STATE", "ARGUMENTS"}, data: list}
				for _, s := range list {
					whose := "everyone"
					if !s.Promoted {
						whose = s.Subject + " of " + s.Tenant
					}
					t.rows = append(t.rows, []string{s.Server, s.Offer, whose, s.State, strings.Join(s.Arguments, " ")})
					t.names = append(t.names, s.Server)
				}
				return o.print(os.Stdout, t)
			})
		},
	}
	o.outputFlag(ls)
	promote := &cobra.Command{
		Use: "promote SERVER", Short: "Make one everyone's whom the gate lets see it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.withControl(path, func(control *admin.Client) error {
				if err := control.PromoteServer(cmd.Context(), args[0], reason); err != nil {
					return err
				}
				say("promoted %s\n", args[0])
				return nil
			})
		},
	}
	promote.Flags().StringVar(&reason, "reason", "", "why, for the record")
	remove := &cobra.Command{
		Use: "remove SERVER", Short: "Take one away", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.withControl(path, func(control *admin.Client) error {
				if err := control.RemoveServer(cmd.Context(), args[0]); err != nil {
					return err
				}
				say("removed %s\n", args[0])
				return nil
			})
		},
	}
	c.AddCommand(ls, promote, remove)
	return c
}

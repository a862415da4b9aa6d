package cli

import (
	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
)

func newTrust(o *command.Options) *cobra.Command {
	var forget bool
	c := &cobra.Command{
		Use:   "trust [FILE]",
		Short: "Accept the toolgate.yaml of this folder",
		Long: `Accept the toolgate.yaml of this folder, or FILE, as it is now. A file in the working
folder may be anybody's, such as that of a repository that you have cloned, and it
says which programs run. So no command starts such a file before you have accepted
it. If the text changes, you are asked again.

A file that you name with --config or TOOLGATE_CONFIG, or that toolgate itself has
written, counts as accepted. What the file refers to, such as programs and policies
in the same folder, is not part of its text.`,
		Example: "  toolgate trust\n  toolgate trust --forget",
		Args:    command.FileArgument(o),
		RunE: func(*cobra.Command, []string) error {
			path, err := o.FindFile()
			if err != nil {
				return err
			}
			if path == "" {
				return failure.Newf(failure.Config, "there is no %s in this folder; name a file", config.FileName)
			}
			if forget {
				state, err := statedir.Open(path)
				if err != nil {
					return err
				}
				if err := state.Forget(); err != nil {
					return err
				}
				output.Say("%s is no longer accepted\n", path)
				return nil
			}
			c, err := o.ReadConfig(path)
			if err != nil {
				return err
			}
			for _, line := range command.Runs(c) {
				output.Say("%s\n", line)
			}
			if err := command.Accept(path, c.Sum); err != nil {
				return err
			}
			output.Say("%s is accepted as it is now\n", path)
			return nil
		},
	}
	c.Flags().BoolVar(&forget, "forget", false, "take it back: the next start asks again")
	return c
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/admin"
)

// logsEvery is how often `toolgate logs -f` asks for new lines.
const logsEvery = 300 * time.Millisecond

func newLogs(o *command.Options) *cobra.Command {
	var follow, previous bool
	c := &cobra.Command{
		Use:   "logs SERVER",
		Short: "Show what a server writes to its standard error",
		Long: `Show the last lines that the process of a server has written to its standard error, up
to 200. With -f show those that follow too, including those of the next process. With
--previous show those of the process before it, and how it ended: a server that crashes
is started again. A remote server has none.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				if previous {
					return previousLogs(cmd.Context(), o, control, args[0])
				}
				return showLogs(o, cmd.Context(), control, args[0], follow)
			})
		},
		ValidArgsFunction: completeServers(o),
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "show new lines until interrupted")
	c.Flags().BoolVarP(&previous, "previous", "p", false, "show the lines of the process before the last one, and how it ended")
	c.MarkFlagsMutuallyExclusive("follow", "previous")
	o.OutputFlag(c)
	return c
}

// previousLogs shows what the process before the last one of a server has written.
func previousLogs(ctx context.Context, o *command.Options, control *admin.Client, server string) error {
	logs, err := control.Logs(ctx, server, true)
	if err != nil {
		return err
	}
	for i, line := range logs.Lines {
		if err := printLogLine(o, logLine{server, logs.Process, logs.Ended - len(logs.Lines) + i + 1, line}); err != nil {
			return err
		}
	}
	switch {
	case !command.Talks(o):
	case logs.Process == 0:
		output.Note("%s had no process before; `toolgate logs %s` shows what the last one wrote", server, server)
	case logs.Cause != "":
		output.Note("%s", logs.Cause)
	}
	return nil
}

// logLine is a line as -o json prints it.
type logLine struct {
	Server  string `json:"server"`
	Process int64  `json:"process"`
	Line    int    `json:"line"` // of the process, from 1
	Text    string `json:"text"`
}

func showLogs(o *command.Options, ctx context.Context, control *admin.Client, server string, follow bool) error {
	var process int64
	shown := 0
	tick := time.NewTicker(logsEvery)
	defer tick.Stop()
	for {
		logs, err := control.Logs(ctx, server, false)
		if err != nil {
			if follow && ctx.Err() != nil {
				return nil
			}
			return err
		}
		if logs.Process != process {
			process, shown = logs.Process, 0
		}
		first := max(0, len(logs.Lines)-(logs.Ended-shown))
		for i, line := range logs.Lines[first:] {
			number := logs.Ended - len(logs.Lines) + first + i + 1
			if err := printLogLine(o, logLine{server, process, number, line}); err != nil {
				return err
			}
		}
		shown = logs.Ended
		if !follow && shown == 0 && command.Talks(o) {
			output.Note("%s has written nothing to its standard error", server)
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func printLogLine(o *command.Options, l logLine) error {
	switch o.Output {
	case "json", "yaml":
		text, err := json.Marshal(l) // JSON is valid YAML
		if err != nil {
			return err
		}
		_, err = fmt.Printf("%s\n", output.EscapedJSON(text))
		return err
	case "name":
		_, err := fmt.Println(output.Printable(l.Server))
		return err
	}
	_, err := fmt.Println(l.Text) // already escaped when it was read
	return err
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/admin"
)

// logsEvery is how often `toolgate logs -f` asks for new lines.
const logsEvery = 300 * time.Millisecond

func newLogs(o *options) *cobra.Command {
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
			return o.withControl(cmd.Context(), func(control *admin.Client) error {
				if previous {
					return previousLogs(cmd.Context(), o, control, args[0])
				}
				return o.logs(cmd.Context(), control, args[0], follow)
			})
		},
		ValidArgsFunction: o.completeServers,
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "show new lines until interrupted")
	c.Flags().BoolVarP(&previous, "previous", "p", false, "show the lines of the process before the last one, and how it ended")
	c.MarkFlagsMutuallyExclusive("follow", "previous")
	o.outputFlag(c)
	return c
}

// previousLogs shows what the process before the last one of a server has written.
func previousLogs(ctx context.Context, o *options, control *admin.Client, server string) error {
	logs, err := control.Logs(ctx, server, true)
	if err != nil {
		return err
	}
	for i, line := range logs.Lines {
		if err := o.logLine(logLine{server, logs.Process, logs.Ended - len(logs.Lines) + i + 1, line}); err != nil {
			return err
		}
	}
	switch {
	case !talks(o):
	case logs.Process == 0:
		note("%s had no process before; `toolgate logs %s` shows what the last one wrote", server, server)
	case logs.Cause != "":
		note("%s", logs.Cause)
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

func (o *options) logs(ctx context.Context, control *admin.Client, server string, follow bool) error {
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
			if err := o.logLine(logLine{server, process, number, line}); err != nil {
				return err
			}
		}
		shown = logs.Ended
		if !follow && shown == 0 && talks(o) {
			note("%s has written nothing to its standard error", server)
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

func (o *options) logLine(l logLine) error {
	switch o.output {
	case "json", "yaml":
		text, err := json.Marshal(l) // JSON is valid YAML
		if err != nil {
			return err
		}
		_, err = fmt.Printf("%s\n", escapedJSON(text))
		return err
	case "name":
		_, err := fmt.Println(printable(l.Server))
		return err
	}
	_, err := fmt.Println(l.Text) // already escaped when it was read
	return err
}

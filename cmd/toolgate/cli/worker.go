package cli

import (
	"cmp"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/daemon/queued"
	"github.com/toolgate/toolgate/internal/descent"
	"github.com/toolgate/toolgate/internal/failure"
)

// maxCapacity bounds the jobs of one worker.
const maxCapacity = 1000

func newWorker(o *command.Options) *cobra.Command {
	var w queued.Worker
	c := &cobra.Command{
		Use:   "worker --queue NAME",
		Short: "Run the tools of a queue for gateways",
		Long: `Run the calls of tools that gateways have put into a queue (toolgate.queue.queues). The
worker reads the same file as the gateways, or one with the same queue and the same tools.
It has its own programs, its own sandbox and its own credentials, serves no clients, and
needs no server of the file.

It waits for its queue, and for the engine of the queue. It runs until it is stopped:
it then takes no more jobs, and lets those that run finish within limits.drain.`,
		Example: "  toolgate worker --queue gpu\n  toolgate worker --queue gpu --queue browser --capacity 2",
		Args:    command.FileArgument(o),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case len(w.Queues) == 0:
				return failure.Newf(failure.Usage, "name a queue: toolgate worker --queue NAME")
			case w.Capacity < 1 || w.Capacity > maxCapacity:
				return failure.Newf(failure.Usage, "--capacity is %d; write 1 to %d", w.Capacity, maxCapacity)
			}
			conf, err := o.LoadConfig()
			if err != nil {
				return err
			}
			state, err := command.OpenState(o, conf)
			if err != nil {
				return err
			}
			if w.Name == "" {
				host, _ := os.Hostname() // a name is for people
				w.Name = cmp.Or(host, "worker")
			}
			log, _ := o.Logger(conf)
			if err := descent.Adopt(); err != nil {
				log.Warn("a tool that detaches itself from the worker may outlive it", "err", err)
			}
			output.Say("worker %s of %q, %d jobs at once\n", w.Name, w.Queues, w.Capacity)
			return w.Serve(cmd.Context(), conf, state, log)
		},
	}
	c.Flags().StringSliceVar(&w.Queues, "queue", nil, "`name` of a queue to serve; may be repeated")
	c.Flags().IntVar(&w.Capacity, "capacity", 4, "`jobs` of each queue that run at once")
	c.Flags().StringVar(&w.Name, "name", "", "`name` of the worker in logs (default the name of the machine)")
	return c
}

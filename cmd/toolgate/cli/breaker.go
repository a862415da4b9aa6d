package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
)

// newBreakerCommand is how the commands of circuit breakers can be typed besides
// `toolgate servers`.
func newBreakerCommand(o *command.Options) *cobra.Command {
	c := &cobra.Command{Use: "breaker", Short: "Show and reset circuit breakers; see toolgate servers", Hidden: true}
	c.AddCommand(newBreakers(o, "ls"), newReset(o))
	return c
}

func newBreakers(o *command.Options, use string) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: "List the circuit breakers with their state",
		Long: `List the circuit breakers of the running gateway with their state. A server that keeps
failing is not called for a while. Its calls are answered at once, and its tools stay
listed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				all, err := control.Breakers(cmd.Context())
				if err != nil {
					return err
				}
				return o.Print(os.Stdout, breakerTable(all))
			})
		},
	}
	o.OutputFlag(c)
	return c
}

func newReset(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use: "reset SERVER [TOOL]", Short: "Close the circuit breakers of a server, or that of one tool",
		Long: `Close all circuit breakers of a server, or that of one of its tools, and reset their
counters. The next call is made. TOOL is the server's own name of the tool.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			tool := ""
			if len(args) > 1 {
				if tool = args[1]; tool == "" {
					return failure.New(failure.Usage, errors.New("the name of the tool is empty"))
				}
			}
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				all, err := control.ResetBreaker(cmd.Context(), args[0], tool)
				if err != nil {
					return err
				}
				return o.Print(os.Stdout, breakerTable(slices.DeleteFunc(all, func(b admin.Breaker) bool { return b.Server != args[0] })))
			})
		},
	}
	o.OutputFlag(c)
	return c
}

func breakerTable(all []admin.Breaker) output.Table {
	t := output.Table{
		Header: []string{"SERVER", "TOOL", "STATE", "IN STATE", "LEFT", "OPENED", "FAILURES", "LAST FAILURE"},
		Data:   map[string]any{"breakers": append([]admin.Breaker{}, all...)},
	}
	for _, b := range all {
		tool, left := b.Tool, "-"
		if tool == "" {
			tool = "-"
		}
		if b.Until != nil {
			left = output.Seconds(max(0, time.Until(*b.Until).Seconds()))
		}
		t.Rows = append(t.Rows, []string{
			b.Server, tool, b.State, output.Seconds(time.Since(b.Since).Seconds()), left,
			fmt.Sprint(b.Opens), fmt.Sprint(b.Failures), b.Why,
		})
		t.Names = append(t.Names, strings.TrimSuffix(b.Server+" "+b.Tool, " "))
	}
	return t
}

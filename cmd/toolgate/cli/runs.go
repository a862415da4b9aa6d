package cli

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
)

// runStates are the values of --state.
var runStates = []string{"running", "waiting", "interrupted", "limit", "completed", "failed", "cancelled", "all"}

func newRuns(o *command.Options) *cobra.Command {
	c := &cobra.Command{Use: "runs", Short: "Look at the runs of agents, and cancel them"}
	var state string
	ls := &cobra.Command{
		Use: "ls", Short: "List the latest runs of agents", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(runStates, state) {
				return failure.Newf(failure.Usage, "unknown --state %q; write %s or %s", state, strings.Join(runStates[:len(runStates)-1], ", "), runStates[len(runStates)-1])
			}
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				list, err := allPages(admin.MaxRuns, "runs", func(last *admin.Run) ([]admin.Run, error) {
					q := admin.RunQuery{State: strings.TrimPrefix(state, "all"), Limit: admin.MaxRuns}
					if last != nil {
						q.Before = *last
					}
					return control.Runs(cmd.Context(), q)
				})
				if err != nil {
					return err
				}
				return o.Print(os.Stdout, runTable(list))
			})
		},
	}
	ls.Flags().StringVar(&state, "state", "all", strings.Join(runStates[:len(runStates)-1], ", ")+" or all")
	show := &cobra.Command{
		Use: "show ID", Short: "Show a run step by step", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				run, err := control.Run(cmd.Context(), args[0], "")
				if err != nil {
					return err
				}
				return o.Print(os.Stdout, runSteps(&run))
			})
		},
	}
	cancel := &cobra.Command{
		Use: "cancel ID", Short: "Cancel a run that has not ended", Args: cobra.ExactArgs(1),
		Long: `Cancel a run that has not ended. Its calls under way are cancelled at their servers; what
they have done already stays done.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				if err := control.CancelRun(cmd.Context(), args[0]); err != nil {
					return err
				}
				output.Say("cancelled %s\n", args[0])
				return nil
			})
		},
	}
	o.OutputFlag(ls)
	o.OutputFlag(show)
	c.AddCommand(ls, show, cancel)
	return c
}

func runTable(list []admin.Run) output.Table {
	t := output.Table{Header: []string{"ID", "STATE", "AGENT", "CALLER", "BEGUN", "CHANGED"}, Data: append([]admin.Run{}, list...), Empty: "no agent has run"}
	for i := range list {
		r := &list[i]
		t.Rows = append(t.Rows, []string{r.ID, r.State, r.Agent, r.Caller, r.CreatedAt.Local().Format(time.DateTime), r.ChangedAt.Local().Format(time.DateTime)})
		t.Names = append(t.Names, r.ID)
	}
	return t
}

// runSteps shows a run: what was asked, its steps, and what came of it.
func runSteps(r *admin.RunDetails) output.Table {
	t := output.Table{Header: []string{"STEP", "TURN", "WHAT", "STATE", "TOOK", "TOKENS", "CALL", "TEXT"}, Data: r, Names: []string{r.ID}}
	row := func(what, text string) {
		if text != "" {
			t.Rows = append(t.Rows, []string{"", "", what, r.State, "", "", "", oneLine(text)})
		}
	}
	row("task", r.Task)
	for i := range r.Steps {
		s := &r.Steps[i]
		took, tokens := "", ""
		if s.EndedAt != nil {
			took = s.EndedAt.Sub(s.BegunAt).Round(time.Millisecond).String()
		}
		what := s.Kind + " " + s.Name
		switch s.Kind {
		case "inference":
			tokens = fmt.Sprintf("%d+%d", s.Input, s.Output)
		case "function": // the caller has named it
			what = s.Kind + " " + strconv.Quote(oneLine(s.Name))
		}
		t.Rows = append(t.Rows, []string{
			strconv.Itoa(s.Seq), strconv.Itoa(s.Turn), what, s.State, took, tokens, s.CallID, oneLine(strings.TrimSpace(s.Asked + " " + s.Answer)),
		})
	}
	row("reason", r.Reason)
	row("answer", r.Text)
	return t
}

// oneLine is the beginning of a text in one line of a table; -o json has all of it.
func oneLine(text string) string {
	const most = 100
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

package decide

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/admin"
)

func NewBudget(o *command.Options) *cobra.Command {
	c := &cobra.Command{Use: "budget", Short: "Show who has used how much of plans and budgets"}
	c.AddCommand(newBudgetList(o), newBudgetRebuild(o))
	return c
}

func newBudgetList(o *command.Options) *cobra.Command {
	var q admin.BudgetQuery
	var asJSON bool
	c := &cobra.Command{
		Use:   "ls",
		Short: "List the usage of every plan and budget, when it resets, and when it will be empty",
		Long: `List the usage of every plan and budget, by whom, when it resets, and when it will be
empty at the pace so far. Unused budgets are not listed.`,
		Example: "  toolgate budget ls\n  toolgate budget ls --budget plan --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				o.Output = "json"
			}
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				uses, err := control.BudgetUse(cmd.Context(), q)
				if err != nil {
					return err
				}
				if len(uses) == admin.MaxBudgetUses {
					output.Note("only the first %d are shown; narrow the list with --budget and --key", len(uses))
				}
				return o.Print(os.Stdout, BudgetTable(uses))
			})
		},
	}
	c.Flags().StringVar(&q.Budget, "budget", "", "only the budget of this `name`; plan means the plans and the budgets of agents")
	c.Flags().StringVar(&q.Key, "key", "", "only the owner with this `key`, as -o wide shows it")
	c.Flags().BoolVar(&asJSON, "json", false, "the same as -o json")
	o.OutputFlag(c)
	return c
}

func newBudgetRebuild(o *command.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild",
		Short: "Start counting again after usage was lost",
		Long: `Make a budget store usable again after it has lost its counters: the lost usage counts
as unused from then on. Until you run this command, everything with a limit is refused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				did, err := control.RebuildBudgets(cmd.Context())
				if err == nil {
					output.Say("%s\n", did)
				}
				return err
			})
		},
	}
}

func BudgetTable(uses []admin.BudgetUse) output.Table {
	t := output.Table{
		Header: []string{"BUDGET", "OWNER", "USED", "LIMIT", "UNIT", "WINDOW", "RESETS", "EMPTY", "KEY"}, Wide: 1, Empty: "no plan or budget has been used",
		Data: append([]admin.BudgetUse{}, uses...),
	}
	for i := range uses {
		u := &uses[i]
		limit := "-"
		if u.Limit != nil {
			limit = strconv.FormatInt(*u.Limit, 10)
		}
		t.Rows = append(t.Rows, []string{
			u.Budget, u.Per + " " + strings.Join(u.Owner, " "), strconv.FormatInt(u.Used, 10), limit, u.Unit, u.Window,
			u.ResetAt.Local().Format(time.DateTime), emptyText(u), u.Key,
		})
		t.Names = append(t.Names, u.Budget+" "+u.Key)
	}
	return t
}

// emptyText says when the budget will be empty.
func emptyText(u *admin.BudgetUse) string {
	switch {
	case u.Limit == nil:
		return "-"
	case u.Used >= *u.Limit:
		return "now"
	case u.EmptyAt == nil:
		return "lasts"
	}
	return u.EmptyAt.Local().Format(time.DateTime)
}

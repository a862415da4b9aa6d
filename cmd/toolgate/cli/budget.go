package cli

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/admin"
)

func newBudgetCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "budget", Short: "Show who has used how much of plans and budgets"}
	c.AddCommand(newBudgetList(o), newBudgetRebuild(o))
	return c
}

func newBudgetList(o *options) *cobra.Command {
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
				o.output = "json"
			}
			return o.withControl(cmd.Context(), func(control *admin.Client) error {
				uses, err := control.BudgetUse(cmd.Context(), q)
				if err != nil {
					return err
				}
				if len(uses) == admin.MaxBudgetUses {
					note("only the first %d are shown; narrow the list with --budget and --key", len(uses))
				}
				return o.print(os.Stdout, budgetTable(uses))
			})
		},
	}
	c.Flags().StringVar(&q.Budget, "budget", "", "only the budget of this `name`; plan means the plans")
	c.Flags().StringVar(&q.Key, "key", "", "only the owner with this `key`, as -o wide shows it")
	c.Flags().BoolVar(&asJSON, "json", false, "the same as -o json")
	o.outputFlag(c)
	return c
}

func newBudgetRebuild(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild",
		Short: "Start counting again after usage was lost",
		Long: `Make a budget store usable again after it has lost its counters: the lost usage counts
as unused from then on. Until you run this command, everything with a limit is refused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withControl(cmd.Context(), func(control *admin.Client) error {
				did, err := control.RebuildBudgets(cmd.Context())
				if err == nil {
					say("%s\n", did)
				}
				return err
			})
		},
	}
}

func budgetTable(uses []admin.BudgetUse) table {
	t := table{
		header: []string{"BUDGET", "OWNER", "USED", "LIMIT", "UNIT", "WINDOW", "RESETS", "EMPTY", "KEY"}, wide: 1, empty: "no plan or budget has been used",
		data: append([]admin.BudgetUse{}, uses...),
	}
	for i := range uses {
		u := &uses[i]
		limit := "-"
		if u.Limit != nil {
			limit = strconv.FormatInt(*u.Limit, 10)
		}
		t.rows = append(t.rows, []string{
			u.Budget, u.Per + " " + strings.Join(u.Owner, " "), strconv.FormatInt(u.Used, 10), limit, u.Unit, u.Window,
			u.ResetAt.Local().Format(time.DateTime), emptyText(u), u.Key,
		})
		t.names = append(t.names, u.Budget+" "+u.Key)
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

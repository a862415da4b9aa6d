package console

import (
	"net/http"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
)

// budgetsData are budgets and what was used.
type budgetsData struct {
	Uses     []admin.BudgetUse
	Down     string
	Tools    []admin.ToolUsage // of the last day
	ToolDown string
}

// shownUsage bounds the tools of the page.
const shownUsage = 100

// budgets shows who has used how much, and which tools were called in the last day.
func (v *visit) budgets() {
	d := &budgetsData{}
	uses, err := v.model.BudgetUse(v.r.Context(), admin.BudgetQuery{Budget: v.r.FormValue("budget")})
	if err != nil {
		d.Down = err.Error()
	}
	for i := range uses {
		// Whose budget it is, is for those who see all calls.
		if v.person.role < Auditor && !v.ownBudget(&uses[i]) {
			continue
		}
		d.Uses = append(d.Uses, uses[i])
	}
	if d.Tools, err = v.model.ToolUsage(v.r.Context(), time.Now().Add(-24*time.Hour), []string{"tool"}); err != nil {
		d.ToolDown = err.Error()
	}
	d.Tools = d.Tools[:min(len(d.Tools), shownUsage)]
	v.render(http.StatusOK, &page{Title: "Budgets", View: "budgets", Command: command("budget", "ls"), Data: d})
}

// ownBudget tells whether a budget is one of the person's own.
func (v *visit) ownBudget(u *admin.BudgetUse) bool {
	return len(u.Owner) == 3 && u.Per == "principal" && v.person.is(u.Owner[0], u.Owner[1], u.Owner[2])
}

package budget_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
)

// A call is charged before it is delivered. A refusal charges nothing.
func ExampleLimiter() {
	noon := &clock{now: budgettest.Noon}
	limiter, err := budget.New(budget.Settings{
		Store: new(budgettest.Memory),
		Clock: noon.clock(),
		Rules: []budget.Rule{{Name: "calls of a person", Per: budget.PerSubject, Unit: budget.Calls, Limit: 2, Window: budget.Day}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"first", "second", "third"} {
		_, err := limiter.Charge(context.Background(), budget.Usage{
			CallID: id, Tool: true, Tenant: "acme", Subject: "alice", Name: "gh__search", Server: "github", Original: "search",
		})
		if refusal, ok := errors.AsType[*budget.Refusal](err); ok {
			fmt.Println(id, "refused:", refusal.Used, "of", refusal.Limit, "used")
			continue
		}
		fmt.Println(id, "charged, error:", err)
	}
	// Output:
	// first charged, error: <nil>
	// second charged, error: <nil>
	// third refused: 2 of 2 used
}

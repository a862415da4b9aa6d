package budgettest_test

import (
	"testing"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
)

func TestSuiteInMemory(t *testing.T) {
	budgettest.Run(t, func(*testing.T, int) []budget.Store { return []budget.Store{new(budgettest.Memory)} })
}

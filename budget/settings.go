package budget

import (
	"errors"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
)

// PlanSettings are how much whoever has it may use, each unit by itself: a tenant, the
// caller of a credential, or an agent ([Settings].Agents). A plan may be written as a
// number, which is its tool_calls, or as unlimited, which limits nothing.
type PlanSettings struct {
	// Tool calls per window. Default: no limit.
	ToolCalls *int64 `config:"tool_calls" min:"0" max:"1000000000000"`
	// Cost units per window. Default: no limit.
	Cost *int64 `config:"cost" min:"0" max:"1000000000000"`
	// Bytes of results per window. Default: no limit.
	Bytes *units.Size `config:"bytes" min:"0" max:"1000000GiB"`
	// Seconds that servers work per window. Default: no limit.
	Seconds *int64 `config:"seconds" min:"0" max:"1000000000000"`
	// Tokens that models read and write per window. Default: no limit.
	Tokens *int64 `config:"tokens" min:"0" max:"1000000000000"`
	// Time window: hour, day, month, or sliding: with a duration, as in sliding:7d. Calendar windows use the tenant's
	// time zone. Default: month.
	Window string `config:"window" default:"month" format:"window"`
}

// Long implements decode.Shorthand: the map that a number, or unlimited, stands
// for.
func (*PlanSettings) Long(n *tree.Node) (long *tree.Node, hint string, err error) {
	long = &tree.Node{Kind: tree.KindMap, Line: n.Line, Column: n.Column, Origin: n.Origin}
	switch {
	case n.Kind == tree.KindString && n.Value == "unlimited":
	case n.Kind == tree.KindNumber:
		long.Fields = []tree.Field{{Key: "tool_calls", Line: n.Line, Column: n.Column, Value: n}}
	default:
		return nil, "write a number of calls a month, unlimited, or a map such as { tool_calls: 1000, window: day }",
			fmt.Errorf("expected a plan, found %s", n.Describe())
	}
	return long, "", nil
}

// Plan is the plan of a name.
func (s *PlanSettings) Plan(name string) (Plan, error) {
	window, err := ParseWindow(s.Window)
	plan := Plan{Name: name, Window: window, Limits: make(map[Unit]int64)}
	for unit, limit := range map[Unit]*int64{Calls: s.ToolCalls, Cost: s.Cost, Bytes: (*int64)(s.Bytes), Seconds: s.Seconds, Tokens: s.Tokens} {
		if limit != nil {
			plan.Limits[unit] = *limit
		}
	}
	return plan, err
}

// RuleSettings are one named limit as an operator writes it.
type RuleSettings struct {
	// Name of the budget. Required.
	Name string `config:"name" required:"true" format:"id"`
	// Whose usage is added up: a subject's, a persona's or a tenant's, or that of all callers together for each server,
	// tool, class of tools or agent. Subjects count separately for each issuer and tenant, and personas for each tenant.
	// Required.
	Per Per `config:"per" required:"true" enum:"subject|persona|tenant|server|tool|class|agent"`
	// Glob of the exposed names that count. Default: all.
	Match string `config:"match"`
	// What is counted: tool calls, cost, bytes of results, seconds that servers work, or tokens that models read and
	// write. Cost is that of tool calls and of inferences. Default: calls.
	Unit Unit `config:"unit" default:"calls" enum:"calls|cost|bytes|seconds|tokens"`
	// Largest usage in this unit. Required.
	Limit int64 `config:"limit" required:"true" min:"0" max:"1000000000000"`
	// Time window: hour, day, month, or sliding: with a duration, as in sliding:90m. Required.
	Window string `config:"window" required:"true" format:"window"`
	// Time zone of calendar windows. Default: UTC.
	Zone string `config:"zone" default:"UTC" format:"zone"`
}

// Rule is the budget of the settings; glob makes the matcher of a pattern of names.
func (s *RuleSettings) Rule(glob func(pattern string) func(name string) bool) (Rule, error) {
	window, bad := ParseWindow(s.Window)
	zone, err := time.LoadLocation(s.Zone)
	rule := Rule{Name: s.Name, Per: s.Per, Unit: s.Unit, Limit: s.Limit, Window: window, Zone: zone}
	if s.Match != "" {
		rule.Match = glob(s.Match)
	}
	return rule, errors.Join(bad, err)
}

// TenantSettings are one tenant's.
type TenantSettings struct {
	// Quota plan of the tenant. Default: none.
	Plan string `config:"plan"`
	// Time zone for the windows of its plan. Default: UTC.
	Zone string `config:"zone" default:"UTC" format:"zone"`
}

// Tenant is the tenant of the settings.
func (s *TenantSettings) Tenant() (Tenant, error) {
	zone, err := time.LoadLocation(s.Zone)
	return Tenant{Plan: s.Plan, Zone: zone}, err
}

package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxBudgets is how many named budgets there may be: a call is charged for each
// that counts it.
const maxBudgets = 50

// shorthands make the long form of what may be written as a scalar.
var shorthands = map[reflect.Type]func(*Node) (*Node, error){reflect.TypeFor[Plan](): longPlan}

// longPlan is the map that a number, or unlimited, stands for.
func longPlan(n *Node) (*Node, error) {
	long := &Node{Kind: KindMap, Line: n.Line, Column: n.Column, origin: n.origin}
	switch {
	case n.Kind == KindString && n.Value == "unlimited":
	case n.Kind == KindNumber:
		long.Fields = []Field{{Key: "tool_calls", Line: n.Line, Column: n.Column, Value: n}}
	default:
		return nil, fmt.Errorf("expected a plan, found %s", describe(n))
	}
	return long, nil
}

// checkBudgets reports what plans, tenants and budgets have wrong together.
func checkBudgets(p *problems, section *Node, t *Toolgate) {
	plans := slices.Sorted(maps.Keys(t.Plans))
	named := func(n *Node, path, plan string) {
		if _, ok := t.Plans[plan]; plan != "" && !ok {
			p.at(n, path, p.didYouMean(plan, plans), "no plan has the name %q", plan)
		}
	}
	tenants := fieldsByKey(section.Get("tenants"))
	for _, name := range slices.Sorted(maps.Keys(t.Tenants)) {
		named(tenants[name].Value.Get("plan"), "tenants."+name+".plan", t.Tenants[name].Plan)
	}
	if len(plans) > 0 { // else the word means something to a policy alone
		keys := section.Get("auth").Get("keys")
		for i := range t.Auth.Keys {
			named(keys.item(i).Get("plan"), fmt.Sprintf("auth.keys[%d].plan", i), t.Auth.Keys[i].Plan)
		}
		if bounded(t) && !t.BoundedPlans {
			p.at(section.Get("durability"), "durability", "remove it, or add bounded_plans: true",
				"with it the last charges may be lost with the power, which plans do not allow unless told so")
		}
		if t.BudgetsIn == "redis" && !t.BoundedPlans {
			p.at(section.Get("budgets_in"), "budgets_in", "remove it, or add bounded_plans: true",
				"Redis may lose the last charges when it fails over, which plans do not allow unless told so")
		}
	}
	list := section.Get("budgets")
	if len(t.Budgets) > maxBudgets {
		p.at(list, "budgets", "", "there are more than %d budgets", maxBudgets)
	}
	seen := make(map[string]int)
	for i := range t.Budgets {
		checkBudget(p, list.item(i), fmt.Sprintf("budgets[%d]", i), &t.Budgets[i], seen)
	}
}

// bounded tells that the store may lose what was written last.
func bounded(t *Toolgate) bool { return t.Durability == "normal" && t.BudgetsIn != "redis" }

func checkBudget(p *problems, n *Node, path string, b *Budget, seen map[string]int) {
	unique(p, n, path, "name", b.Name, seen)
	if b.Name == "plan" {
		p.at(n.Get("name"), path+".name", "write another one", "the name is that of what plans count")
	}
	if zone := n.Get("zone"); !zone.isNull() && strings.HasPrefix(b.Window, "sliding:") {
		p.at(zone, path+".zone", "remove it", "a sliding window is the same in every zone")
	}
}

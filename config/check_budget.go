package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/config/tree"
)

// maxBudgets is how many named budgets there may be: a call is charged for each
// that counts it.
const maxBudgets = 50

// checkBudgets reports what plans, tenants and budgets have wrong together.
func checkBudgets(p *tree.Problems, section *tree.Node, t *Toolgate) {
	plans := slices.Sorted(maps.Keys(t.Plans))
	named := func(n *tree.Node, path, plan string) {
		if _, ok := t.Plans[plan]; plan != "" && !ok {
			p.At(n, path, p.DidYouMean(plan, plans), "no plan has the name %q", plan)
		}
	}
	tenants := section.Get("tenants").ByKey()
	for _, name := range slices.Sorted(maps.Keys(t.Tenants)) {
		named(tenants[name].Value.Get("plan"), "tenants."+name+".plan", t.Tenants[name].Plan)
	}
	if len(plans) > 0 { // else the word means something to a policy alone
		keys := section.Get("auth").Get("keys")
		for i := range t.Auth.Keys {
			named(keys.Item(i).Get("plan"), fmt.Sprintf("auth.keys[%d].plan", i), t.Auth.Keys[i].Plan)
		}
		if bounded(t) && !t.BoundedPlans {
			p.At(section.Get("durability"), "durability", "remove it, or add bounded_plans: true",
				"with it the last charges may be lost with the power, which plans do not allow unless told so")
		}
		if t.BudgetsIn == "redis" && !t.BoundedPlans {
			p.At(section.Get("budgets_in"), "budgets_in", "remove it, or add bounded_plans: true",
				"Redis may lose the last charges when it fails over, which plans do not allow unless told so")
		}
	}
	list := section.Get("budgets")
	if len(t.Budgets) > maxBudgets {
		p.At(list, "budgets", "", "there are more than %d budgets", maxBudgets)
	}
	seen := make(map[string]int)
	for i := range t.Budgets {
		checkBudget(p, list.Item(i), fmt.Sprintf("budgets[%d]", i), &t.Budgets[i], seen)
	}
}

// bounded tells that the store may lose what was written last.
func bounded(t *Toolgate) bool { return t.Durability == "normal" && t.BudgetsIn != "redis" }

func checkBudget(p *tree.Problems, n *tree.Node, path string, b *budget.RuleSettings, seen map[string]int) {
	p.Unique(n, path, "name", b.Name, seen)
	if b.Name == "plan" {
		p.At(n.Get("name"), path+".name", "write another one", "the name is that of what plans count")
	}
	if b.Unit == budget.Tokens && !b.Per.Counts(b.Unit) {
		p.At(n.Get("per"), path+".per", "write subject, persona, tenant or agent", "tokens are counted for no %s", b.Per)
	}
	if zone := n.Get("zone"); !zone.IsNull() && strings.HasPrefix(b.Window, "sliding:") {
		p.At(zone, path+".zone", "remove it", "a sliding window is the same in every zone")
	}
}

// checkRates reports what only several values of rates together can have wrong,
// and names those that have no name.
func checkRates(p *tree.Problems, section *tree.Node, t *Toolgate) {
	if t.BudgetsIn == "redis" && t.Redis == "" {
		p.At(section.Get("budgets_in"), "budgets_in", "add redis: redis://HOST:PORT/DB, or remove it", "no Redis is configured")
	}
	names, list := map[string]int{}, section.Get("rates")
	for i := range t.Rates {
		r := &t.Rates[i]
		n, path := list.Item(i), fmt.Sprintf("rates[%d]", i)
		if r.Per != nil && len(r.Per) == 0 {
			p.At(n.Get("per"), path+".per", "write principal, server, tenant, tool or persona", "it counts nobody")
		}
		for j, per := range r.Per {
			if slices.Contains(r.Per[:j], per) {
				p.At(n.Get("per"), path+".per", "remove one", "%s is there twice", per)
				break
			}
		}
		if r.Match == "" {
			r.Match = "*"
		}
		if r.Name == "" { // a second one of the same name would count twice
			r.Name = r.Dimensions() + " " + r.Match + " " + r.Window.String()
			if first, dup := names[r.Name]; dup {
				p.At(n, path, "remove one, or give it a name", "another limit of the same calls in the same window is on line %d", first)
			}
			if n != nil {
				names[r.Name] = n.Line
			}
			continue
		}
		p.Unique(n, path, "name", r.Name, names)
	}
}

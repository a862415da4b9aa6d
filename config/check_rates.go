package config

import (
	"fmt"
	"slices"
	"strings"
)

// checkRates reports what only several values of rates together can have wrong,
// and names those that have no name.
func checkRates(p *problems, section *Node, t *Toolgate) {
	if t.BudgetsIn == "redis" && t.Redis == "" {
		p.at(section.Get("budgets_in"), "budgets_in", "add redis: redis://HOST:PORT/DB, or remove it", "no Redis is configured")
	}
	names, list := map[string]int{}, section.Get("rates")
	for i := range t.Rates {
		r := &t.Rates[i]
		n, path := list.item(i), fmt.Sprintf("rates[%d]", i)
		if r.Per != nil && len(r.Per) == 0 {
			p.at(n.Get("per"), path+".per", "write principal, server, tenant, tool or persona", "it counts nobody")
		}
		for j, per := range r.Per {
			if slices.Contains(r.Per[:j], per) {
				p.at(n.Get("per"), path+".per", "remove one", "%s is there twice", per)
				break
			}
		}
		if r.Match == "" {
			r.Match = "*"
		}
		if r.Name == "" { // a second one of the same name would count twice
			r.Name = strings.Join(r.Per, "+") + " " + r.Match + " " + r.Window.String()
			if first, dup := names[r.Name]; dup {
				p.at(n, path, "remove one, or give it a name", "another limit of the same calls in the same window is on line %d", first)
			}
			if n != nil {
				names[r.Name] = n.Line
			}
			continue
		}
		unique(p, n, path, "name", r.Name, names)
	}
}

package build

import (
	"maps"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/composite"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/native/declared"
)

// addSteps adds the phase of tools with steps behind all others, which it asks about what
// the steps call.
func (g *Gates) addSteps(c *config.Config) {
	of := called(c.Toolgate.Tools)
	if len(of) == 0 {
		return
	}
	all := gate.NewChain(g.phases...)
	unargued := all.Without("opa")
	policy := g.Policy
	g.Steps = composite.New(composite.Options{Of: of, RunAs: lent(c.Toolgate.Tools), Views: all, Calls: func() *gate.Chain {
		if policy != nil && policy.ReadsArguments() {
			return unargued
		}
		return all
	}})
	g.phases = append(g.phases, g.Steps)
}

// called returns what the tools with steps call, and what those call.
func called(tools []declared.Settings) map[composite.Tool][]string {
	direct := make(map[string][]string)
	for i := range tools {
		t := &tools[i]
		for j := range t.Steps {
			if !t.Template {
				direct[NameOf(t.Namespace)+t.Name] = append(direct[NameOf(t.Namespace)+t.Name], t.Steps[j].Call)
			}
		}
	}
	of := make(map[composite.Tool][]string, len(direct))
	for i := range tools {
		t := &tools[i]
		if len(t.Steps) == 0 || t.Template {
			continue
		}
		seen := make(map[string]bool)
		for open := slices.Clone(direct[NameOf(t.Namespace)+t.Name]); len(open) > 0; open = open[1:] {
			if !seen[open[0]] {
				seen[open[0]] = true
				open = append(open, direct[open[0]]...)
			}
		}
		of[composite.Tool{Server: t.Namespace, Original: t.Name}] = slices.Sorted(maps.Keys(seen))
	}
	return of
}

// lent returns the capsules that are lent to tools.
func lent(tools []declared.Settings) map[composite.Tool]string {
	out := make(map[composite.Tool]string)
	for i := range tools {
		if t := &tools[i]; t.RunAs != "" && !t.Template {
			out[composite.Tool{Server: t.Namespace, Original: t.Name}] = t.RunAs
		}
	}
	return out
}

// onlyReads tells whether everything that a tool with steps calls is known to be a declared
// tool that changes nothing, and that the operator does not class as stricter elsewhere.
func onlyReads(c *config.Config, t *declared.Settings) bool {
	tools := c.Toolgate.Tools
	classes := make(map[string]string)
	for i := range tools {
		if len(tools[i].Steps) > 0 {
			classes[NameOf(tools[i].Namespace)+tools[i].Name] = "read_only" // as far as it is itself concerned
		} else {
			classes[NameOf(tools[i].Namespace)+tools[i].Name] = tools[i].Class
		}
	}
	names := called(tools)[composite.Tool{Server: t.Namespace, Original: t.Name}]
	if len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return classes[name] != "read_only" }) {
		return false
	}
	rules, err := governance.New(governed(c), governance.Options{})
	if err != nil {
		return false // it is said where the rules are made
	}
	return !slices.ContainsFunc(names, func(name string) bool {
		class := rules.Class(gate.Names{Exposed: name}, "", governance.Operator{}, governance.Hints{})
		return class.OperatorClassed && !class.ReadOnly
	})
}

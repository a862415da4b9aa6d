package build

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/composite"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/mcp"
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
	g.Steps = composite.New(composite.Options{Of: of, RunAs: lent(c.Toolgate.Tools), Fits: fitting(c), Views: all, Calls: func() *gate.Chain {
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

// fitting returns what looks at the arguments of steps, as far as they are known before
// the tool runs, once a server has listed the tool that a step calls.
func fitting(c *config.Config) func(of composite.Tool, call string, definition []byte) []composite.Misfit {
	tools := make(map[composite.Tool]int)
	for i := range c.Toolgate.Tools {
		t := &c.Toolgate.Tools[i]
		tools[composite.Tool{Server: t.Namespace, Original: t.Name}] = i
	}
	return func(of composite.Tool, call string, definition []byte) (found []composite.Misfit) {
		i, declared := tools[of]
		input := mcp.Lookup(definition, "inputSchema")
		if !declared || input == nil {
			return nil
		}
		t := &c.Toolgate.Tools[i]
		at, d := c.Origin(fmt.Sprintf("tools[%d].name", i)), t.Declaration()
		for j := range t.Steps {
			step := &t.Steps[j]
			if step.Call != call {
				continue
			}
			for _, p := range d.CheckArguments(j, input) {
				text := fmt.Sprintf("the step %s of %s does not fit %s: %s: %s", step.ID, NameOf(t.Namespace)+t.Name, call, strings.Join(p.Path, "."), p.Text)
				if p.Hint != "" {
					text += " (" + p.Hint + ")"
				}
				if from := c.Origin(fmt.Sprintf("tools[%d].steps[%d].call", i, j)); from.Line > 0 {
					at = from
				}
				if at.Line > 0 {
					text += fmt.Sprintf(" [%s:%d]", filepath.Base(at.File), at.Line)
				}
				found = append(found, composite.Misfit{Text: text, Ends: step.OnError == "" || step.OnError == "fail"})
			}
		}
		return found
	}
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

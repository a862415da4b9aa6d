package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/steps"
)

// runAs returns what is wrong with the capsule that is lent to a tool with steps: one that
// is not there or does not have what the steps call, and whatever would lend more than the
// calls that are written.
func (k *callees) runAs(t *Toolgate, tool *declared.Settings) (problems []steps.Problem) {
	if tool.RunAs == "" {
		return nil
	}
	wrong := func(step int, key, hint, text string) {
		problems = append(problems, steps.Problem{Step: step, Path: []string{key}, Text: text, Hint: hint})
	}
	c, exists := t.Capsules[tool.RunAs]
	switch {
	case !exists:
		hint := "write a capsule of that name"
		if near := tree.Nearest(tool.RunAs, slices.Sorted(maps.Keys(t.Capsules))); near != "" {
			hint = "write " + near + " instead"
		}
		wrong(-1, "run_as", hint, "no capsule has this name")
		return problems
	case tool.Template:
		wrong(-1, "run_as", "remove it", "whoever registers a tool of a template would be lent the capsule")
	}
	for i := range tool.Steps {
		call := tool.Steps[i].Call
		callee, known := k.tools[call]
		switch {
		case !steps.ValidCall(call): // which the tool says itself
		case strings.HasPrefix(call, agents.ServerKey+nameSeparator), known && len(t.Tools[callee].Steps) > 0:
			wrong(i, "call", "call the tools that it calls", "with run_as a step calls no agent and no tool with steps, because the capsule is not lent to what these call")
		case !c.Calls(call):
			wrong(i, "call", "add "+call+" to capsules."+tool.RunAs+".visible and callable", "the capsule "+tool.RunAs+" of run_as does not have it")
		}
		if tool.Steps[i].Whole() {
			wrong(i, "with", "write the arguments one by one", "with run_as {*} would hand in arguments that nobody has written")
		}
	}
	return problems
}

// borrows reports a call of a tool that has a capsule lent to it.
func borrows(t *Toolgate, step, callee int) []steps.Problem {
	if t.Tools[callee].RunAs == "" {
		return nil
	}
	return []steps.Problem{{Step: step, Path: []string{"call"}, Text: "it has run_as, and no step calls such a tool", Hint: "call the tools that it calls"}}
}

package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/steps"
)

// nameSeparator is between the namespace and the name of a tool.
const nameSeparator = "__"

// callees are the tools that steps may call, as far as a configuration knows them.
type callees struct {
	tools     map[string]int // declared ones that are served, by their exposed names
	templates map[string]bool
	declared  map[string]bool // namespaces of declared tools
	servers   map[string]bool // namespaces of servers
	anything  bool            // tools of any name may be there
	reported  map[string]bool // circles, by their tools
}

// checkSteps reports calls of tools that are not there, arguments that they do not take,
// and tools that call each other in a circle. What a server offers is known when it has
// listed it.
func checkSteps(p *tree.Problems, t *Toolgate, servers []Server, places []toolPlace) {
	k := callees{
		tools: make(map[string]int), templates: make(map[string]bool), declared: make(map[string]bool), servers: map[string]bool{reservedNamespace: true},
		anything: len(t.ToolURLs) > 0, reported: make(map[string]bool),
	}
	for i := range t.Tools {
		name := exposedName(&t.Tools[i])
		k.declared[t.Tools[i].Namespace] = true
		if t.Tools[i].Template {
			k.templates[name] = true
		} else {
			k.tools[name] = i
		}
	}
	for i := range servers {
		k.servers[servers[i].Namespace] = true
		k.anything = k.anything || servers[i].Namespace == ""
	}
	for i := range t.Tools {
		tool := &t.Tools[i]
		declaration := tool.Declaration()
		problems := k.runAs(t, tool)
		for j := range tool.Steps {
			call := tool.Steps[j].Call
			if !steps.ValidCall(call) {
				continue // which the tool says itself
			}
			if hint, text := k.missing(call); text != "" {
				problems = append(problems, steps.Problem{Step: j, Path: []string{"call"}, Text: text, Hint: hint})
				continue
			}
			callee, known := k.tools[call]
			if !known {
				continue
			}
			problems = append(problems, declaration.CheckArguments(j, t.Tools[callee].InputSchema)...)
			problems = append(problems, borrows(t, j, callee)...)
			if circle := k.circle(t, i, callee); circle != "" {
				problems = append(problems, steps.Problem{
					Step: j, Path: []string{"call"}, Text: "the tools call each other in a circle: " + circle, Hint: "call something else here",
				})
			}
		}
		own := &tree.Problems{File: places[i].file}
		steps.Report(own, places[i].node, places[i].path, problems)
		p.List = append(p.List, own.List...)
	}
}

func exposedName(t *declared.Settings) string { return t.Namespace + nameSeparator + t.Name }

// missing says why no tool can have a name, with what to do; nothing where one may.
func (k *callees) missing(call string) (hint, text string) {
	if _, known := k.tools[call]; known {
		return "", ""
	}
	if k.templates[call] {
		return "call a tool that is made of it", "it is a template, which nobody can call"
	}
	namespace, _, prefixed := strings.Cut(call, nameSeparator)
	near := func(of []string, after string) string {
		if found := tree.Nearest(strings.TrimSuffix(call, after), of); found != "" {
			return "did you mean " + found + after + "?"
		}
		return "write the name that clients use, such as github__list_issues"
	}
	switch {
	case prefixed && k.servers[namespace] || k.anything && !k.declared[namespace]:
		return "", ""
	case prefixed && k.declared[namespace]:
		return near(slices.Sorted(maps.Keys(k.tools)), ""), "no tool is declared with this name"
	case prefixed:
		spaces := append(slices.Sorted(maps.Keys(k.servers)), slices.Sorted(maps.Keys(k.declared))...)
		return near(spaces, call[len(namespace):]), "there is no server and no namespace " + namespace
	}
	return near(slices.Sorted(maps.Keys(k.tools)), ""), "there is no such tool; a name begins with the namespace of a server or of declared tools"
}

// circle returns the way from a tool that is called back to its caller, as it is shown;
// empty where there is none, or where it has been reported.
func (k *callees) circle(t *Toolgate, caller, callee int) string {
	seen := make(map[int]bool)
	var walk func(at int) []int
	walk = func(at int) []int {
		if at == caller {
			return []int{at}
		}
		if seen[at] {
			return nil
		}
		seen[at] = true
		for i := range t.Tools[at].Steps {
			if next, known := k.tools[t.Tools[at].Steps[i].Call]; known {
				if way := walk(next); way != nil {
					return append([]int{at}, way...)
				}
			}
		}
		return nil
	}
	way := walk(callee)
	if way == nil {
		return ""
	}
	names := []string{exposedName(&t.Tools[caller])}
	for _, i := range way {
		names = append(names, exposedName(&t.Tools[i]))
	}
	set := slices.Clone(names[1:])
	slices.Sort(set)
	if key := strings.Join(set, " "); !k.reported[key] {
		k.reported[key] = true
		return strings.Join(names, " > ")
	}
	return ""
}

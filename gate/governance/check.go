package governance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/schema"
)

// Problem is a mistake in the rules.
type Problem struct {
	Rule gate.Rule
	// Key is the configuration key with the mistake.
	Key string
	// Text says what is wrong and what to do.
	Text string
	// Match is the name or glob of a rule that matches no tool; empty for every other
	// problem.
	Match string
}

// Error implements error.
func (p Problem) Error() string { return p.Key + ": " + p.Text }

// Check compares rules with the existing tools, given by exposed name with their input
// schemas. It returns all problems in the order of the rules: names or globs that
// match no tool, and pointers that are in no schema of the matched tools. Nil means no
// problem.
func Check(rules *Rules, schemas map[string][]byte) []Problem {
	if rules == nil || !rules.made {
		return []Problem{{Key: "governance", Text: "there are no rules, which denies every call"}}
	}
	names := slices.Sorted(maps.Keys(schemas))
	var problems []Problem
	for _, own := range rules.rules {
		if own.InCategory != "" {
			continue // who is in it is known to the catalog alone
		}
		var tools []string
		for _, name := range names {
			if own.name.Match(name) {
				tools = append(tools, name)
			}
		}
		if len(tools) == 0 {
			text := fmt.Sprintf("%q matches no tool", own.Match)
			if near := closest(own.Match, names); near != "" {
				text += fmt.Sprintf("; did you mean %q?", near)
			}
			problems = append(problems, Problem{own.place("no tool"), own.where(""), text, own.Match})
			continue
		}
		problems = append(problems, rules.checkPointers(own, tools, schemas)...)
	}
	return problems
}

// checkPointers finds pointers that match nothing in the schemas.
func (r *Rules) checkPointers(own *rule, tools []string, schemas map[string][]byte) []Problem {
	var problems []Problem
	add := func(key, format string, args ...any) {
		problems = append(problems, Problem{Rule: own.place(key), Key: own.where(key), Text: fmt.Sprintf(format, args...)})
	}
	var prepared []*schema.Schema
	for _, name := range tools {
		s, err := r.schemas.Compile(schemas[name])
		if err != nil {
			add("", "the schema of %s: %v", name, err)
			continue
		}
		prepared = append(prepared, s)
		if len(own.paths) > 0 && !slices.ContainsFunc(own.paths, func(p pointer) bool { return s.Declares(p.text) }) {
			add("paths_in", "%s has none of these arguments, so that its paths are not checked; give it a rule of its own", name)
		}
	}
	if len(prepared) == 0 {
		return problems
	}
	check := func(key string, pointers []pointer) {
		for _, p := range pointers {
			if !slices.ContainsFunc(prepared, func(s *schema.Schema) bool { return s.Declares(p.text) }) {
				add(key, "%s is in no schema of %s", p.text, strings.Join(tools, ", "))
			}
		}
	}
	check("paths_in", own.paths)
	for i, c := range own.commands {
		check(fmt.Sprintf("commands[%d]", i), c.in)
	}
	for i, p := range own.patterns {
		check(fmt.Sprintf("patterns[%d]", i), p.in)
	}
	return problems
}

// closest returns the name that shares the longest prefix and suffix with another,
// when they are more than half of it.
func closest(name string, names []string) string {
	best, most := "", len(name)/2
	for _, other := range names {
		shared := 0
		for shared < min(len(name), len(other)) && name[shared] == other[shared] {
			shared++
		}
		tail := 0
		for tail < min(len(name), len(other))-shared && name[len(name)-1-tail] == other[len(other)-1-tail] {
			tail++
		}
		if shared+tail > most {
			best, most = other, shared+tail
		}
	}
	return best
}

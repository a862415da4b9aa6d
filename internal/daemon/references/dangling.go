package references

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/capsule"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/spelling"
	"github.com/toolgate/toolgate/proxy/auth"
)

// Mentioned holds all parts of a configuration that name tools, prompts, resources or
// servers. Nil parts name none.
type Mentioned struct {
	c        *config.Config
	rules    *governance.Rules
	scopes   *auth.Scopes
	capsules *capsule.Phase
	policy   *opa.Phase
	builtin  *spicedb.Builtin
}

func By(c *config.Config, g *build.Gates, scopes *auth.Scopes) Mentioned {
	return Mentioned{c, g.Examiner.Rules, scopes, g.Capsules, g.Policy, g.Builtin}
}

// Dangling returns the names that match nothing that exists or may exist. A rule with
// such a name protects or allows nothing.
func (m Mentioned) Dangling(targets *Targets) []governance.Problem {
	var problems []governance.Problem
	for _, p := range governance.Check(m.rules, targets.schemas) {
		// The gateway's own rule matches everything by design.
		if p.Match != "*" && (p.Match == "" || !targets.maybe(p.Match)) {
			problems = append(problems, p)
		}
	}
	add := func(key, name string, at gate.Rule) {
		problems = append(problems, governance.Problem{Rule: at, Key: key, Text: nothing(targets, name)})
	}
	// Globs of URIs may match resources that are in no list.
	glob := func(key, glob string, at gate.Rule) {
		if !strings.Contains(glob, ":") && !targets.maybe(glob) {
			add(key, glob, at)
		}
	}
	names := targets.names()
	for _, match := range m.scopes.Unmatched(names) {
		i := slices.IndexFunc(m.c.Toolgate.Auth.Scopes.Required, func(r auth.ScopeRule) bool { return r.Match == match })
		glob("auth.scopes.required", match, m.at("auth.scopes.required[%d].match", i))
	}
	if m.capsules != nil {
		for _, p := range m.capsules.Unmatched(names) {
			glob("capsules", string(p.Glob), p.At)
		}
	}
	pins := func(key string, pins []string) {
		for i, name := range pins {
			if !targets.covers(name) {
				glob(key, name, m.at(key+"[%d]", i))
			}
		}
	}
	pins("find.pins", m.c.Toolgate.Find.Pins)
	for _, name := range slices.Sorted(maps.Keys(m.c.Toolgate.Capsules)) {
		pins("capsules."+name+".pins", m.c.Toolgate.Capsules[name].Pins)
	}
	for i := range m.c.Toolgate.Budgets {
		if match := m.c.Toolgate.Budgets[i].Match; match != "" && !targets.covers(match) {
			glob(fmt.Sprintf("budgets[%d].match", i), match, m.at("budgets[%d].match", i))
		}
	}
	for i := range m.c.Toolgate.Rates {
		if match := m.c.Toolgate.Rates[i].Match; match != "" && match != "*" && !targets.covers(match) {
			glob(fmt.Sprintf("rates[%d].match", i), match, m.at("rates[%d].match", i))
		}
	}
	for i, match := range m.c.Toolgate.SpiceDB.StrictFor {
		if !targets.covers(match) {
			glob("spicedb.strict_for", match, m.at("spicedb.strict_for[%d]", i))
		}
	}
	if m.policy != nil {
		for _, mention := range m.policy.Mentions() {
			if !targets.covers(mention.Name) {
				glob("data."+mention.Key, mention.Name, mention.At)
			}
		}
		problems = append(problems, misspeltData(m.policy)...)
	}
	if m.builtin != nil {
		for _, a := range m.builtin.Absent(targets.there, targets.Servers) {
			if !targets.maybeObject(&a) {
				add("spicedb.builtin", a.Object, gate.Rule{File: a.At.File, Line: a.At.Line})
			}
		}
	}
	return problems
}

// at returns the place of a list element.
func (m Mentioned) at(path string, i int) gate.Rule {
	o := m.c.Origin(fmt.Sprintf(path, i))
	return gate.Rule{File: o.File, Line: o.Line}
}

// nothing reports that a name matches nothing, with the name that was probably meant.
func nothing(targets *Targets, name string) string {
	text := fmt.Sprintf("%q matches nothing that there is", name)
	kind, bare, found := strings.Cut(name, ":")
	if !found {
		kind, bare = "", name
	}
	if near := targets.closest(bare); near != "" {
		if kind != "" {
			near = kind + ":" + near
		}
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return text
}

// maybeObject tells whether an object may refer to a server whose names are unknown.
func (targets *Targets) maybeObject(a *spicedb.Absent) bool {
	switch {
	case a.Exposed != "":
		return targets.maybe(a.Exposed)
	case a.Server != "":
		return slices.ContainsFunc(targets.Offers, func(offer string) bool { return strings.HasPrefix(a.Server, offer+"-") })
	default:
		return len(targets.unseen) > 0
	}
}

// misspeltData finds keys in a policy's data that have no meaning, but are similar to
// one that has.
func misspeltData(p *opa.Phase) []governance.Problem {
	var problems []governance.Problem
	unread := p.UnreadData()
	for _, key := range slices.Sorted(maps.Keys(unread)) {
		for _, meant := range opa.DataKeys() {
			if spelling.Misspelt(key, meant) {
				problems = append(problems, governance.Problem{
					Rule: unread[key], Key: "data." + key, Text: fmt.Sprintf("nothing reads this key, so that it denies and allows nothing; did you mean %q?", meant),
				})
				break
			}
		}
	}
	return problems
}

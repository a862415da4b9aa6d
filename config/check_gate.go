package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/toolgate/toolgate/config/tree"
)

// checkSpiceDB reports what the values of the section together have wrong.
func checkSpiceDB(p *tree.Problems, section *tree.Node, t *Toolgate) {
	n, s := section.Get("spicedb"), &t.SpiceDB
	switch {
	case n == nil || n.IsNull():
		return
	case s.Endpoint != "" && s.Builtin != nil:
		p.At(n.Get("builtin"), "spicedb.builtin", "remove one", "the section has both an endpoint and a builtin")
	case n.Get("endpoint").IsNull() && n.Get("builtin").IsNull():
		p.At(n, "spicedb", "add endpoint: host:port, or builtin: {...}", "the section names nobody to ask")
	}
	if s.Builtin != nil {
		for _, of := range []struct {
			key string
			set bool
		}{
			{"token", s.Token != ""},
			{"tls", s.TLS != nil},
			{"ca", s.CA != ""},
			{"strict", s.Strict},
			{"strict_for", s.StrictFor != nil},
			{"timeouts", s.Timeouts != SpiceDBTimeouts{}},
			{"cache", s.Cache != 0},
		} {
			if of.set {
				p.At(n.Get(of.key), "spicedb."+of.key, "remove it", "a builtin has no server that this is about")
			}
		}
	}
	if s.TLS != nil && !*s.TLS && s.CA != "" {
		p.At(n.Get("ca"), "spicedb.ca", "remove it, or tls: false", "without TLS nothing is verified")
	}
}

// checkGovernance reports rules that would leave unread what they are about.
func checkGovernance(p *tree.Problems, section *tree.Node, t *Toolgate) {
	rules := section.Get("governance").Get("tools").ByKey()
	for _, match := range slices.Sorted(maps.Keys(t.Governance.Tools)) {
		if own := t.Governance.Tools[match]; own.PathsIn != nil && len(own.PathsIn) == 0 {
			p.At(rules[match].Value.Get("paths_in"), "governance.tools."+match+".paths_in",
				"leave it out, so that paths are found by their names, or take allowed_paths and forbidden_paths away", "an empty list leaves all paths unread")
		}
	}
}

// checkAdmins reports roles of nobody, and of callers that are never let in.
func checkAdmins(p *tree.Problems, list *tree.Node, t *Toolgate) {
	for i, a := range t.Auth.Admins {
		n, path := list.Item(i), fmt.Sprintf("auth.admins[%d]", i)
		switch {
		case (a.Subject == "") == (a.Group == ""):
			p.At(n, path, "write subject or group", "must name a subject or a group, and not both")
		case a.Issuer == "" && len(t.Auth.Keys) == 0:
			p.At(n, path, "write issuer, or an API key under auth.keys", "is of the owners of API keys, and there are none")
		case a.Issuer != "" && !slices.ContainsFunc(t.Auth.JWT, func(j JWT) bool { return j.Issuer == a.Issuer }) && t.Auth.Introspection.Issuer != a.Issuer:
			p.At(n.Get("issuer"), path+".issuer", "write one of auth.jwt, or that of auth.introspection", "no tokens of this issuer are taken")
		}
	}
}

// mergeAdmins keeps who has the role in both: giving it waits, taking it away
// does not.
func mergeAdmins(o, n []Admin) ([]Admin, Parts) {
	const path = "auth.admins"
	var parts Parts
	var merged []Admin
	for _, a := range o {
		if slices.Contains(n, a) {
			merged = append(merged, a)
		}
	}
	if len(merged) < len(o) {
		parts.Now = append(parts.Now, path)
	}
	if slices.ContainsFunc(n, func(a Admin) bool { return !slices.Contains(o, a) }) {
		parts.Pending = append(parts.Pending, path)
	}
	return merged, parts
}

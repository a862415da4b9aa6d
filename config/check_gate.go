package config

import (
	"maps"
	"net/url"
	"slices"
)

// checkSpiceDB reports what the values of the section together have wrong.
func checkSpiceDB(p *problems, section *Node, t *Toolgate) {
	n, s := section.Get("spicedb"), &t.SpiceDB
	switch {
	case n == nil || n.isNull():
		return
	case s.Endpoint != "" && s.Builtin != nil:
		p.at(n.Get("builtin"), "spicedb.builtin", "remove one", "the section has both an endpoint and a builtin")
	case n.Get("endpoint").isNull() && n.Get("builtin").isNull():
		p.at(n, "spicedb", "add endpoint: host:port, or builtin: {...}", "the section names nobody to ask")
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
				p.at(n.Get(of.key), "spicedb."+of.key, "remove it", "a builtin has no server that this is about")
			}
		}
	}
	if s.TLS != nil && !*s.TLS && s.CA != "" {
		p.at(n.Get("ca"), "spicedb.ca", "remove it, or tls: false", "without TLS nothing is verified")
	}
}

// checkOPA reports a policy that somebody else could change on its way here.
func checkOPA(p *problems, section *Node, t *Toolgate) {
	n := section.Get("opa")
	for _, from := range []struct{ key, url string }{{"bundle", t.OPA.Bundle}, {"url", t.OPA.URL}} {
		if u, err := url.Parse(from.url); err == nil && u.Scheme == "http" && !ofThisMachine(u.Hostname()) {
			p.at(n.Get(from.key), "opa."+from.key, "write https://, or an address of this machine such as 127.0.0.1",
				"over http, whoever is in between says what is allowed")
		}
	}
	if t.OPA.BundleKey != "" && t.OPA.Bundle == "" {
		p.at(n.Get("bundle_key"), "opa.bundle_key", "remove it, or add bundle: URL", "there is no bundle that is fetched")
	}
}

// checkGovernance reports rules that would leave unread what they are about.
func checkGovernance(p *problems, section *Node, t *Toolgate) {
	rules := fieldsByKey(section.Get("governance").Get("tools"))
	for _, match := range slices.Sorted(maps.Keys(t.Governance.Tools)) {
		if own := t.Governance.Tools[match]; own.PathsIn != nil && len(own.PathsIn) == 0 {
			p.at(rules[match].Value.Get("paths_in"), "governance.tools."+match+".paths_in",
				"leave it out, so that paths are found by their names, or take allowed_paths and forbidden_paths away", "an empty list leaves all paths unread")
		}
	}
}

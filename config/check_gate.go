package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/proxy/auth"
)

// checkAdmins reports roles of nobody, and of callers that are never let in. role is the
// name of the list.
func checkAdmins(p *tree.Problems, section *tree.Node, role string, all auth.Role, t *Toolgate) {
	for i, a := range all {
		n, path := section.Get(role).Item(i), fmt.Sprintf("auth.%s[%d]", role, i)
		switch {
		case (a.Subject == "") == (a.Group == ""):
			p.At(n, path, "write subject or group", "must name a subject or a group, and not both")
		case a.Issuer == "" && len(t.Auth.Keys) == 0:
			p.At(n, path, "write issuer, or an API key under auth.keys", "is of the owners of API keys, and there are none")
		case a.Issuer != "" && !slices.ContainsFunc(t.Auth.JWT, func(j auth.Issuer) bool { return j.Issuer == a.Issuer }) && t.Auth.Introspection.Issuer != a.Issuer:
			p.At(n.Get("issuer"), path+".issuer", "write one of auth.jwt, or that of auth.introspection", "no tokens of this issuer are taken")
		}
	}
}

// mergeAdmins keeps who has the role in both: giving it waits, taking it away
// does not.
func mergeAdmins(path string, o, n auth.Role) (auth.Role, Parts) {
	var parts Parts
	var merged auth.Role
	for _, a := range o {
		if slices.Contains(n, a) {
			merged = append(merged, a)
		}
	}
	if len(merged) < len(o) {
		parts.Now = append(parts.Now, path)
	}
	if slices.ContainsFunc(n, func(a auth.RoleHolder) bool { return !slices.Contains(o, a) }) {
		parts.Pending = append(parts.Pending, path)
	}
	return merged, parts
}

// checkInterceptors checks each interceptor, that its name is its own, and that its server
// or plugin is one of the file.
func checkInterceptors(p *tree.Problems, list *tree.Node, t *Toolgate, serverKeys []string) {
	all, names, plugins := t.Interceptors, map[string]int{}, slices.Sorted(maps.Keys(t.Native.Plugins))
	for i := range all {
		n, path := list.Item(i), fmt.Sprintf("interceptors[%d]", i)
		p.Unique(n, path, "name", all[i].Name, names)
		all[i].Check(p, n, path)
		if key := all[i].Server; key != "" && !slices.Contains(serverKeys, key) {
			p.At(n.Get("server"), path+".server", p.DidYouMean(key, serverKeys), "no server has this name")
		}
		if key := all[i].Plugin; key != "" && !slices.Contains(plugins, key) {
			p.At(n.Get("plugin"), path+".plugin", p.DidYouMean(key, plugins), "no plugin has this name")
		}
	}
}

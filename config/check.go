package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/plugins/memory"
	"github.com/toolgate/toolgate/native/plugins/notify"
	"github.com/toolgate/toolgate/native/plugins/schedule"
)

// checkToolgate reports what only several values together can have wrong, and
// settles the defaults that depend on others.
func checkToolgate(p *tree.Problems, section *tree.Node, t *Toolgate, serverKeys []string) {
	servers := section.Get("servers").ByKey()
	named := map[string]bool{}
	for _, key := range serverKeys {
		named[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(t.Servers)) {
		f := servers[key]
		if !named[key] {
			if slices.ContainsFunc(t.Tools, func(d declared.Settings) bool { return d.Namespace == key }) {
				p.AtField(f, "servers."+key, "write timeout, class, risk, approval, rate_limit_per_hour and the like in each tool under tools",
					"this is the namespace of declared tools, which have no settings of servers")
				continue
			}
			p.AtField(f, "servers."+key, p.DidYouMean(key, serverKeys), "no server has this name")
			continue
		}
		checkServer(p, f.Value, "servers."+key, t.Servers[key], t.Results.MaxBytes != 0)
		set := t.Servers[key]
		checkServerAuth(p, f.Value.Get("auth"), "servers."+key+".auth", &set, t)
		checkRenamed(p, f.Value, key, t.Servers, named)
	}
	ids, list := map[string]int{}, section.Get("keys")
	for i, k := range t.Keys {
		n, path := list.Item(i), fmt.Sprintf("keys[%d]", i)
		if k.File == "" && k.Env == "" {
			p.At(n, path, "add file: or env:", "the key names nothing that holds it")
		}
		if k.File != "" && k.Env != "" {
			p.At(n, path, "remove one", "the key has both a file and an env")
		}
		p.Unique(n, path, "id", k.ID, ids)
	}
	checkCluster(p, section, t)
	checkAuth(p, section, t)
	t.SpiceDB.Check(p, section.Get("spicedb"), "spicedb")
	t.OPA.Check(p, section.Get("opa"), "opa")
	t.Governance.Check(p, section.Get("governance"), "governance")
	t.Find.Embeddings.Check(p, section.Get("find").Get("embeddings"), "find.embeddings")
	checkRates(p, section, t)
	t.Results.CheckLevel(p, section.Get("results"), "results", true)
	checkInterceptors(p, section.Get("interceptors"), t, serverKeys)
	checkAgents(p, section, t)
	t.Approvals.Check(p, section.Get("approvals"), "approvals")
	checkBudgets(p, section, t)
	t.Audit.Check(p, section.Get("audit"), "audit")
	t.Feedback.Check(p, section.Get("feedback"), "feedback")
	t.Telemetry.Check(p, section.Get("telemetry"), "telemetry")
	t.Queue.Check(p, section.Get("queue"), "queue", workerNamespaces(section, t))
	if t.Audit.Mode == "" {
		t.Audit.Mode = audit.BestEffort
		if t.Authenticates() {
			t.Audit.Mode = audit.Required
		}
	}
}

// workerNamespaces are the namespaces whose tools workers may run: those of native tools
// with a process of their own, and of declared ones.
func workerNamespaces(section *tree.Node, t *Toolgate) (out []string) {
	for _, key := range nativeKeys(section) {
		if !slices.Contains([]string{memory.Name, schedule.Name, notify.Name, agents.ServerKey}, key) { // in the gateway's process
			out = append(out, Namespace(key))
		}
	}
	for i := range t.Tools {
		if t.Tools[i].Type != "steps" {
			out = append(out, t.Tools[i].Namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func checkServer(p *tree.Problems, n *tree.Node, path string, s ServerSettings, sized bool) {
	if t := s.Timeouts; t.Hard != 0 && t.Call > t.Hard {
		p.At(n.Get("timeouts").Get("call"), path+".timeouts.call", "write at most hard", "%s is longer than hard, %s", t.Call, t.Hard)
	}
	sized = sized || s.Results.MaxBytes != 0
	s.Results.CheckLevel(p, n.Get("results"), path+".results", sized || len(s.Tools) > 0)
	names, tools := map[string]int{}, n.Get("tools").ByKey()
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		tool, at, toolPath := s.Tools[name], tools[name].Value, path+".tools."+name
		p.Unique(at, toolPath, "rename", tool.Rename, names)
		if tool.Hard != 0 && tool.Timeout > tool.Hard {
			p.At(at.Get("timeout"), toolPath+".timeout", "write at most hard", "%s is longer than hard, %s", tool.Timeout, tool.Hard)
		}
		if tool.Cache != nil && tool.Idempotent != nil && !*tool.Idempotent {
			p.At(at.Get("cache"), toolPath+".cache", "remove it, or idempotent: false", "a tool that must not be called again has no results to reuse")
		}
		tool.Results.CheckLevel(p, at.Get("results"), toolPath+".results", sized)
		args := at.Get("args").ByKey()
		for _, arg := range slices.Sorted(maps.Keys(tool.Args)) {
			if a := tool.Args[arg]; a.Fixed != nil && a.Default != nil {
				p.At(args[arg].Value, toolPath+".args."+arg, "remove one", "an argument has either a fixed value or a default")
			}
		}
	}
}

// checkRenamed holds the former name of a server against the names that there
// are.
func checkRenamed(p *tree.Problems, n *tree.Node, key string, all map[string]ServerSettings, named map[string]bool) {
	from := all[key].RenamedFrom
	if from == "" {
		return
	}
	at, path := n.Get("renamed_from"), "servers."+key+".renamed_from"
	if named[from] {
		p.At(at, path, "remove it, or the server of that name", "there still is a server %q", from)
	}
	for _, other := range slices.Sorted(maps.Keys(all)) {
		if other < key && all[other].RenamedFrom == from {
			p.At(at, path, "remove one of the two", "the server %q was renamed from %q too", other, from)
		}
	}
}

// SharesStore tells whether other gateways can have the same store.
func (t *Toolgate) SharesStore() bool {
	return t.Store != "" && !strings.HasPrefix(t.Store, "sqlite:")
}

// checkCluster refuses gateways that could not know one another.
func checkCluster(p *tree.Problems, section *tree.Node, t *Toolgate) {
	cluster := section.Get("cluster")
	switch {
	case t.Cluster.Advertise == "" && t.Cluster.Listen != "":
		p.At(cluster, "cluster", "add advertise: HOST:PORT, where the others reach this gateway", "the other gateways do not know where this one listens")
	case t.Cluster.Advertise == "":
	case !t.SharesStore():
		p.At(cluster, "cluster", "set store: postgres://..., which all of them use", "gateways know one another by the database that they share")
	case len(t.Keys) == 0:
		p.At(cluster, "cluster", "set keys, the same for all of them", "gateways trust one another by the keys that they share")
	}
}

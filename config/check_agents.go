package config

import (
	"maps"
	"slices"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/native/agents"
)

// checkAgents checks each agent, its name, and that its capsule is one of the file; and that
// agents which answer servers are there.
func checkAgents(p *tree.Problems, section *tree.Node, t *Toolgate) {
	fields, capsules := section.Get("agents").ByKey(), slices.Sorted(maps.Keys(t.Capsules))
	for _, name := range slices.Sorted(maps.Keys(t.Agents)) {
		f, path, s := fields[name], "agents."+name, t.Agents[name]
		agents.CheckName(p, f, path, name)
		s.Check(p, f.Value, path)
		if c := s.Capsule; c != "" && !slices.Contains(capsules, c) {
			p.At(f.Value.Get("capsule"), path+".capsule", p.DidYouMean(c, capsules), "no capsule has this name")
		}
	}
	names, servers := slices.Sorted(maps.Keys(t.Agents)), section.Get("servers").ByKey()
	for _, key := range slices.Sorted(maps.Keys(t.Servers)) {
		if a := t.Servers[key].ClientRequests.SamplingAgent; a != "" && !slices.Contains(names, a) {
			n := servers[key].Value.Get("client_requests").Get("sampling_agent")
			p.At(n, "servers."+key+".client_requests.sampling_agent", p.DidYouMean(a, names), "no agent has this name")
		}
	}
}

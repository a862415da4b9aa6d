package config

import (
	"maps"
	"slices"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/native/agents"
)

// checkAgents checks each agent, its name, and that its capsule is one of the file.
func checkAgents(p *tree.Problems, section *tree.Node, t *Toolgate) {
	fields, capsules := section.ByKey(), slices.Sorted(maps.Keys(t.Capsules))
	for _, name := range slices.Sorted(maps.Keys(t.Agents)) {
		f, path, s := fields[name], "agents."+name, t.Agents[name]
		agents.CheckName(p, f, path, name)
		s.Check(p, f.Value, path)
		if c := s.Capsule; c != "" && !slices.Contains(capsules, c) {
			p.At(f.Value.Get("capsule"), path+".capsule", p.DidYouMean(c, capsules), "no capsule has this name")
		}
	}
}

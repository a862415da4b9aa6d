package config

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/group"
	"github.com/toolgate/toolgate/upstream"
)

// nativeGroups are the groups of the gateway's own tools: the fields of [Native] whose
// type is the settings of a group, in their order.
var nativeGroups = sync.OnceValue(func() []nativeGroup {
	var out []nativeGroup
	for _, f := range decode.Fields(reflect.TypeFor[Native]()) {
		if f.Type.Implements(reflect.TypeFor[group.Settings]()) {
			out = append(out, nativeGroup{f.Tag.Get("config"), f.Index})
		}
	}
	return out
})

// nativeGroup is a group by its key, and the place of its settings in [Native].
type nativeGroup struct {
	key   string
	index []int
}

// of returns the settings of the group, nil where it is off.
func (g nativeGroup) of(n *Native) group.Settings {
	field := reflect.ValueOf(n).Elem().FieldByIndex(g.index)
	if field.IsNil() {
		return nil
	}
	settings, _ := reflect.TypeAssert[group.Settings](field)
	return settings
}

// nativeKeys are the keys of groups and plugins that a section names, for the
// settings that servers of their names may have.
func nativeKeys(section *tree.Node) []string {
	var keys []string
	native := section.Get("native")
	for _, g := range nativeGroups() {
		if !native.Get(g.key).IsNull() {
			keys = append(keys, g.key)
		}
	}
	if section.Get("agents").IsMap() {
		keys = append(keys, agents.ServerKey)
	}
	return append(keys, slices.Sorted(maps.Keys(native.Get("plugins").ByKey()))...)
}

// nativeServers are the groups that are on, the plugins and the agents, as servers
// without settings.
func nativeServers(t *Toolgate, toolgate *tree.Node) []Server {
	n, section := &t.Native, toolgate.Get("native")
	var out []Server
	add := func(key string, at *tree.Node, native any) {
		s := Server{Key: key, Namespace: Namespace(key), Transport: TransportNative, Native: native}
		if at != nil {
			s.Line = at.Line
		}
		out = append(out, s)
	}
	for _, g := range nativeGroups() {
		if settings := g.of(n); settings != nil {
			add(g.key, section.Get(g.key), settings)
		}
	}
	if len(t.Agents) > 0 {
		add(agents.ServerKey, toolgate.Get("agents"), &agents.Group{Agents: t.Agents})
	}
	plugins := section.Get("plugins").ByKey()
	for _, key := range slices.Sorted(maps.Keys(n.Plugins)) {
		plugin := n.Plugins[key]
		add(key, &tree.Node{Line: plugins[key].Line}, &plugin)
	}
	return out
}

// withSettings is a server of the gateway's own with what is set for it.
func withSettings(s Server, set *ServerSettings) Server {
	if p, ok := s.Native.(*native.PluginSettings); ok {
		s.Written = clients.Written{Command: p.Path, Args: p.Args}
	}
	s.lay(upstream.Timeouts{}, set)
	return s
}

// foreign are settings of servers that mean nothing for the gateway's own tools.
var foreign = []string{
	"protocol", "isolation", "plain_catalog", "processes", "env_inherit", "sandbox", "auth", "client_requests", "offer",
}

// checkNative reports what the settings of native tools have wrong together.
func checkNative(p *tree.Problems, section *tree.Node, t *Toolgate, natives []Server, entries []clients.Entry) {
	native, servers := section.Get("native"), section.Get("servers")
	written := map[string]string{}
	for _, e := range entries {
		written[e.Key] = placeIn(p.File, e.Source, e.Line)
	}
	for i := range natives {
		key := natives[i].Key
		if place, taken := written[key]; taken {
			p.At(&tree.Node{Line: natives[i].Line, Column: 1}, "native."+key, "give the server another name", "the server %q (%s) has the same name", key, place)
		}
		for _, name := range foreign {
			if n := servers.Get(key).Get(name); !n.IsNull() {
				p.At(n, "servers."+key+"."+name, "remove it", "native tools have no such setting")
			}
		}
	}
	own := []string{agents.ServerKey}
	for _, g := range nativeGroups() {
		own = append(own, g.key)
	}
	for _, key := range own {
		if _, clash := t.Native.Plugins[key]; clash {
			p.At(native.Get("plugins").Get(key), "native.plugins."+key, "write another name", "the name is that of the gateway's own tools")
		}
	}
	for _, g := range nativeGroups() {
		if checker, ok := g.of(&t.Native).(decode.Checker); ok {
			checker.Check(p, native.Get(g.key), "native."+g.key)
		}
	}
}

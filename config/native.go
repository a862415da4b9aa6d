package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/tree"
)

// nativeGroups are the groups of the gateway's own tools, by their keys.
var nativeGroups = []struct {
	key string
	of  func(*Native) (group any, on bool)
}{
	{"code", func(n *Native) (any, bool) { return n.Code, n.Code != nil }},
	{"fs", func(n *Native) (any, bool) { return n.FS, n.FS != nil }},
	{"system", func(n *Native) (any, bool) { return n.System, n.System != nil }},
	{"util", func(n *Native) (any, bool) { return n.Util, n.Util != nil }},
	{"web", func(n *Native) (any, bool) { return n.Web, n.Web != nil }},
}

// nativeKeys are the keys of groups and plugins that a section names, for the
// settings that servers of their names may have.
func nativeKeys(section *tree.Node) []string {
	var keys []string
	native := section.Get("native")
	for _, g := range nativeGroups {
		if !native.Get(g.key).IsNull() {
			keys = append(keys, g.key)
		}
	}
	return append(keys, slices.Sorted(maps.Keys(native.Get("plugins").ByKey()))...)
}

// nativeServers are the groups that are on and the plugins, as servers without
// settings.
func nativeServers(n *Native, section *tree.Node) []Server {
	var out []Server
	add := func(key string, at *tree.Node, native any) {
		s := Server{Key: key, Namespace: Namespace(key), Transport: TransportNative, Native: native}
		if at != nil {
			s.Line = at.Line
		}
		out = append(out, s)
	}
	for _, g := range nativeGroups {
		if group, on := g.of(n); on {
			add(g.key, section.Get(g.key), group)
		}
	}
	plugins := section.Get("plugins").ByKey()
	for _, key := range slices.Sorted(maps.Keys(n.Plugins)) {
		plugin := n.Plugins[key]
		add(key, &tree.Node{Line: plugins[key].Line}, &plugin)
	}
	return out
}

// native is a server of the gateway's own with what is set for it.
func (r *serverReader) native(s Server, set ServerSettings) Server {
	x := &reading{serverReader: r, entry: entry{key: s.Key, line: s.Line, path: "native." + s.Key, node: &tree.Node{Kind: tree.KindMap, Line: s.Line}}, s: s}
	if p, ok := s.Native.(*Plugin); ok {
		x.s.Written = Written{Command: p.Path, Args: p.Args}
	}
	x.timeouts(set.Timeouts)
	x.settings(set)
	return x.s
}

// foreign are settings of servers that mean nothing for the gateway's own tools.
var foreign = []string{
	"protocol", "isolation", "plain_catalog", "processes", "env_inherit", "auth", "client_requests", "offer",
}

// checkNative reports what the settings of native tools have wrong together.
func checkNative(p *tree.Problems, section *tree.Node, t *Toolgate, natives []Server, entries []entry) {
	native, servers := section.Get("native"), section.Get("servers")
	written := map[string]int{}
	for _, e := range entries {
		written[e.key] = e.line
	}
	for i := range natives {
		key := natives[i].Key
		if line, taken := written[key]; taken {
			p.At(&tree.Node{Line: natives[i].Line, Column: 1}, "native."+key, "give the server another name", "the server %q (line %d) has the same name", key, line)
		}
		for _, name := range foreign {
			if n := servers.Get(key).Get(name); !n.IsNull() {
				p.At(n, "servers."+key+"."+name, "remove it", "native tools have no such setting")
			}
		}
	}
	for _, g := range nativeGroups {
		if _, clash := t.Native.Plugins[g.key]; clash {
			p.At(native.Get("plugins").Get(g.key), "native.plugins."+g.key, "write another name", "the name is that of the gateway's own tools")
		}
	}
	if fs := t.Native.FS; fs != nil {
		if len(fs.Roots) == 0 && !native.Get("fs").Get("roots").IsNull() {
			p.At(native.Get("fs").Get("roots"), "native.fs.roots", "write the folders whose files are served", "is required and empty")
		}
		checkInside(p, native.Get("fs").Get("write"), "native.fs.write", fs.Write, fs.Roots)
	}
	if code := t.Native.Code; code != nil {
		checkInside(p, native.Get("code").Get("write"), "native.code.write", code.Write, code.Roots)
		c := native.Get("code").Get("container")
		switch {
		case code.Container.Runtime != "" && code.Container.Image == "":
			p.At(c, "native.code.container.image", "add image: ...", "a container needs an image")
		case code.Container.Runtime == "" && (code.Container.Image != "" || len(code.Container.Args) > 0):
			p.At(c, "native.code.container.runtime", "add runtime: docker, or runtime: podman", "nothing runs the container")
		}
		for _, kind := range []struct {
			key string
			of  map[string]CodeCommand
		}{{"linters", code.Linters}, {"tests", code.Tests}} {
			at := native.Get("code").Get(kind.key).ByKey()
			for _, name := range slices.Sorted(maps.Keys(kind.of)) {
				if command := kind.of[name].Command; len(command) == 0 || command[0] == "" || strings.Contains(command[0], "{path}") {
					p.At(at[name].Value, fmt.Sprintf("native.code.%s.%s.command", kind.key, name), "write the program and its arguments", "there is no program to run")
				}
			}
		}
	}
}

// checkInside reports folders that are in none of the roots.
func checkInside(p *tree.Problems, n *tree.Node, path string, folders, roots []string) {
	for i, folder := range folders {
		inside := slices.ContainsFunc(roots, func(root string) bool {
			rel, err := filepath.Rel(root, folder)
			return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
		})
		if !inside {
			p.At(n.Item(i), fmt.Sprintf("%s[%d]", path, i), "write a folder in one of the roots", "%s is in none of the roots", folder)
		}
	}
}

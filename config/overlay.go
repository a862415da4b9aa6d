package config

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/tree"
)

// envPrefix begins the names of variables that override settings.
const envPrefix = "TOOLGATE_"

// leaf is one setting that a flag or a variable can override: a scalar or a
// list of texts that is reached through maps of fixed keys, and through the
// keys of servers.
type leaf struct {
	path     string   // listen.http
	segments []string // its keys, since a server's key may hold a dot
	env      string   // TOOLGATE_LISTEN_HTTP
}

// leaves lists every setting that can be overridden, given the keys of servers.
func leaves(serverKeys []string) []leaf {
	var out []leaf
	var walk func(t reflect.Type, segments []string)
	walk = func(t reflect.Type, segments []string) {
		for _, f := range decode.Fields(t) {
			seg := append(slices.Clone(segments), f.Tag.Get("config"))
			ft := f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			switch {
			case ft.Kind() == reflect.Struct:
				walk(ft, seg)
			case ft == reflect.TypeFor[map[string]ServerSettings]():
				for _, key := range serverKeys {
					walk(ft.Elem(), append(slices.Clone(seg), key))
				}
			case ft == reflect.TypeFor[json.RawMessage](), ft.Kind() == reflect.Map, ft.Kind() == reflect.Slice && ft.Elem().Kind() != reflect.String:
			default:
				out = append(out, leaf{strings.Join(seg, "."), seg, overrideName(seg)})
			}
		}
	}
	walk(reflect.TypeFor[Toolgate](), nil)
	return out
}

// overrideName is the variable that overrides the setting of a path.
func overrideName(segments []string) string {
	return envPrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, strings.Join(segments, "_"))
}

// overlay lays variables and over them flags over the toolgate section. It
// returns a new tree where it changes anything.
func overlay(p *tree.Problems, section *tree.Node, serverKeys, environ []string, flags map[string]string) (*tree.Node, []tree.Warning) {
	all := leaves(serverKeys)
	byPath, byEnv := map[string]leaf{}, map[string][]leaf{}
	var paths, names []string
	for _, l := range all {
		byPath[l.path] = l
		byEnv[l.env] = append(byEnv[l.env], l)
		paths, names = append(paths, l.path), append(names, l.env)
	}
	var warnings []tree.Warning
	for _, kv := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		switch ls := byEnv[name]; len(ls) {
		case 0:
			if near := tree.Nearest(name, names); near != "" && inSection(name) {
				warnings = append(warnings, tree.Warning{Key: name, Text: "this variable names no setting; did you mean " + near + "?"})
			}
		case 1:
			origin := &tree.Origin{Kind: tree.OriginEnv, Name: name}
			section = with(section, ls[0].segments, &tree.Node{Kind: tree.KindString, Value: value, Origin: origin})
		default:
			p.At(&tree.Node{Origin: &tree.Origin{Kind: tree.OriginEnv, Name: name}}, "", "use the file instead", "could mean %s or %s", ls[0].path, ls[1].path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(flags)) {
		origin := &tree.Origin{Kind: tree.OriginFlag, Name: path}
		l, ok := byPath[path]
		if !ok {
			hint := instead(path)
			if hint == "" {
				hint = p.DidYouMean(strings.TrimPrefix(path, "toolgate."), paths)
			}
			p.At(&tree.Node{Origin: origin}, "", hint, "there is no such setting")
			continue
		}
		section = with(section, l.segments, &tree.Node{Kind: tree.KindString, Value: flags[path], Origin: origin})
	}
	return section, warnings
}

// inSection reports whether a variable begins like those of a section, so that
// variables of other meaning, such as TOOLGATE_CONFIG, pass without a word.
func inSection(name string) bool {
	t := reflect.TypeFor[Toolgate]()
	for f := range t.Fields() {
		if f.Type.Kind() != reflect.String && strings.HasPrefix(name, overrideName([]string{f.Tag.Get("config")})+"_") {
			return true
		}
	}
	return false
}

// with returns a copy of a map in which the value of a path is v. Where
// something on the way is no map, n is returned unchanged: decoding reports it.
func with(n *tree.Node, segments []string, v *tree.Node) *tree.Node {
	if len(segments) == 0 {
		return v
	}
	out := &tree.Node{Kind: tree.KindMap, Origin: v.Origin}
	if !n.IsNull() {
		if n.Kind != tree.KindMap {
			return n
		}
		c := *n
		c.Fields = slices.Clone(n.Fields)
		out = &c
	}
	for i := range out.Fields {
		if out.Fields[i].Key == segments[0] {
			out.Fields[i].Value = with(out.Fields[i].Value, segments[1:], v)
			return out
		}
	}
	out.Fields = append(out.Fields, tree.Field{Key: segments[0], Value: with(nil, segments[1:], v)})
	return out
}

package proxy

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/names"
)

// named maps the tools at a server to all their names.
func named(r *rig) map[string][]string {
	out := map[string][]string{}
	for _, route := range r.snapshot.Load().catalog.lists[mcp.Tool].entries {
		out[route.Original] = route.names().All()
	}
	return out
}

// A name that was changed because of a collision keeps its unsuffixed name. No two
// tools of a server share any name. The operator's names are never changed.
func TestCaseCollisionsKeepTheirUnsuffixedNames(t *testing.T) {
	hashed := func(original string) string { return names.Exposed("s", "s", original, true) }
	for _, tt := range []struct {
		name    string
		tools   []string
		renames map[string]string
		want    map[string][]string
	}{
		{"alone", []string{"read"}, nil, map[string][]string{"read": {"s__read"}}},
		{"twins", []string{"read", "Read", "write"}, nil, map[string][]string{
			"read": {hashed("read"), "s__read"}, "Read": {hashed("Read"), "s__Read"}, "write": {"s__write"},
		}},
		{"a twin of what the operator renamed", []string{"x", "Read"}, map[string]string{"x": "read"}, map[string][]string{
			"x": {"s__read"}, "Read": {hashed("Read"), "s__Read"},
		}},
		{"in place of what the operator renamed", []string{"x", "read"}, map[string]string{"x": "read"}, map[string][]string{"x": {"s__read"}}},
		{"and its twin", []string{"x", "read", "Read"}, map[string]string{"x": "read"}, map[string][]string{
			"x": {"s__read"}, "Read": {hashed("Read"), "s__Read"},
		}},
		{"renamed out of the way", []string{"read", "Read"}, map[string]string{"Read": "other"}, map[string][]string{
			"read": {"s__read"}, "Read": {"s__other"},
		}},
		{"posing as a changed name", []string{"a.b", strings.TrimPrefix(hashed("a.b"), "s__")}, nil, map[string][]string{"a.b": {hashed("a.b")}}},
		{"not ASCII", []string{"k", "\u212a"}, nil, map[string][]string{"k": {"s__k"}, "\u212a": {hashed("\u212a")}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // in both orders
				var items []string
				for _, name := range tt.tools {
					items = append(items, `tool {"name":`+string(mcp.Quote(name))+`}`)
				}
				mounts := mounted(newScript(t, "s", mcp.Modern, items...))
				for from, to := range tt.renames {
					if mounts[0].Tools == nil {
						mounts[0].Tools = map[string]ToolShape{}
					}
					mounts[0].Tools[from] = ToolShape{Rename: to}
				}
				got := named(newRig(t, mounts))
				if len(got) != len(tt.want) {
					t.Errorf("%d tools are offered, want %d: %v", len(got), len(tt.want), got)
				}
				for original, want := range tt.want {
					if !slices.Equal(got[original], want) {
						t.Errorf("%q has the names %q, want %q", original, got[original], want)
					}
				}
				slices.Reverse(tt.tools)
			}
		})
	}
}

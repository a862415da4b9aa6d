package spicedb_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/internal/mcp"
)

func TestAbsent(t *testing.T) {
	there := []gate.Request{
		{Kind: mcp.Tool, Server: "github", Original: "search", Exposed: "gh__search", CapabilityID: "cap_1"},
		{Kind: mcp.Tool, Server: "github", Original: "a.b", Exposed: "gh__a.b", CapabilityID: "cap_2"},
		{Kind: mcp.Prompt, Server: "github", Original: "ask", Exposed: "gh__ask", CapabilityID: "cap_3"},
		{Kind: mcp.Resource, Server: "docs", Original: "file:///x", Exposed: "docs+file:///x", CapabilityID: "cap_4"},
	}
	config := spicedb.Config{
		Teams: map[string]spicedb.Team{"dev": {Members: at(1, "user:alice")}},
		Servers: map[string]spicedb.Server{
			"github": {Executors: at(2, "team:dev")}, "gihtub": {Executors: at(3, "team:dev")}, "idle": {Executors: at(4, "team:dev")},
		},
		Tools: map[string]spicedb.Object{
			"gh__search": {Owners: at(5, "user:alice")}, "gh__a.b": {Owners: at(6, "user:alice")},
			"gh__serch": {Executors: at(8, "user:alice"), Banned: at(7, "user:bob")}, "gh__ask": {Owners: at(9, "user:alice")},
		},
		Prompts:   map[string]spicedb.Object{"gh__ask": {Owners: at(10, "user:alice")}},
		Resources: map[string]spicedb.Object{"docs": {Owners: at(11, "user:alice")}, "dosc": {Owners: at(12, "user:alice")}},
		Relations: at(13, "tool:gh__x#executor@user:alice", "tool:gh__search#executor@user:bob"),
	}
	type found struct {
		object, exposed, server string
		line                    int
	}
	for name, tt := range map[string]struct {
		mapping spicedb.Mapping
		want    []found
	}{
		"by exposed names": {spicedb.Mapping{}, []found{
			{"server:gihtub", "", "gihtub", 3},
			{"tool:gh__serch", "gh__serch", "", 7},
			{"tool:gh__ask", "gh__ask", "", 9}, // a prompt has it
			{"resource:dosc", "", "dosc", 12},
			{"tool:gh__x", "gh__x", "", 13},
		}},
		"by capability": {spicedb.Mapping{ObjectID: "capability"}, []found{
			{"server:gihtub", "", "gihtub", 3},
			{"tool:gh__search", "", "", 5},
			{"tool:gh__a=2Eb", "", "", 6},
			{"tool:gh__serch", "", "", 7},
			{"tool:gh__ask", "", "", 9},
			{"prompt:gh__ask", "", "", 10},
			{"resource:dosc", "", "dosc", 12},
			{"tool:gh__x", "", "", 13},
		}},
		"by tenant, of which nothing is known": {spicedb.Mapping{ObjectID: "tenant/exposed"}, []found{
			{"server:gihtub", "", "gihtub", 3},
			{"resource:dosc", "", "dosc", 12},
		}},
	} {
		b, err := spicedb.NewBuiltin(tt.mapping, config)
		if err != nil {
			t.Fatal(err)
		}
		var got []found
		for _, a := range b.Absent(there, []string{"github", "docs", "idle"}) {
			got = append(got, found{a.Object, a.Exposed, a.Server, a.At.Line})
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(found{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := new(spicedb.Builtin).Absent(there, nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

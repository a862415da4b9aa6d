//go:build !windows

package daemon_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/composite"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
)

// stepsFor is a configuration with tools of steps, and callers with capsules of their own:
// all may call everything, some no pid, and look may only look at it.
func stepsFor() map[string]any {
	tool := func(name string, answer any, steps ...map[string]any) map[string]any {
		return map[string]any{"name": name, "type": "steps", "steps": steps, "answer": answer, "input_schema": properties("word")}
	}
	section := declaring(
		tool("report", map[string]any{"said": "{said}", "pid": "{pid}"},
			map[string]any{"id": "said", "call": "a__echo", "with": map[string]any{"text": "{word}"}}, map[string]any{"id": "pid", "call": "a__pid"}),
		tool("twice", "/both",
			map[string]any{"id": "first", "call": "tools__report", "with": map[string]any{"word": "{word}"}},
			map[string]any{"id": "both", "call": "tools__broken", "on_error": "continue", "with": map[string]any{"word": "{first/said}"}}),
		tool("broken", "/b", map[string]any{"id": "a", "call": "a__echo"}, map[string]any{"id": "b", "call": "a__fail"}),
		tool("nowhere", "/a", map[string]any{"id": "a", "call": "a__nothing"}),
	)
	capsules, keys := map[string]any{}, []any{}
	for who, may := range map[string][2][]string{
		"all": {{"*"}, {"*"}}, "some": {{"a__echo", "a__fail", "tools__*"}, {"*"}}, "look": {{"*"}, {"a__echo", "a__fail", "tools__*"}},
	} {
		capsules[who] = map[string]any{"visible": may[0], "callable": may[1], "personas": []string{who}}
		keys = append(keys, map[string]any{"id": who, "sha256": sum(who), "subject": who, "persona": who})
	}
	section["auth"], section["capsules"] = map[string]any{"keys": keys}, capsules
	return section
}

// A tool with steps makes its calls through the gate, as its caller, and is listed to those
// who may call all of them.
func TestToolsWithSteps(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, stepsFor())
	r := h.newRunning(t)
	r.settle(t)
	all := r.Client(t, "all")
	got := text(t, all, "tools__report", `{"word":"hello"}`)
	if !strings.Contains(got, `hello`) || !strings.Contains(got, `"pid":`) {
		t.Errorf("the answer is %s", got)
	}
	if got := text(t, all, "tools__broken", `{"word":"hello"}`); !strings.Contains(got, `{"failed":"b"`) || !strings.Contains(got, `"done":[{"step":"a","call":"a__echo","calls":1},{"step":"b","call":"a__fail","calls":0,"errors":1}]`) {
		t.Errorf("the failure is %s", got)
	}
	if got := text(t, all, "tools__twice", `{"word":"hello"}`); !strings.Contains(got, `"error":`) {
		t.Errorf("the answer of a tool within a tool is %s", got)
	}
	for who, want := range map[string][]string{"all": {"tools__broken", "tools__report", "tools__twice"}, "some": {"tools__broken"}, "look": {"tools__broken"}} {
		c := r.Client(t, who)
		list, err := c.Request(t.Context(), mcp.MethodToolsList, []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		tools := mcp.Lookup(list, "tools")
		for e := range mcp.Elements(tools) {
			if name, _ := mcp.LookupString(e.Of(tools), "name"); strings.HasPrefix(name, "tools__") {
				names = append(names, name)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s is shown %q, want %q", who, names, want)
		}
		for _, name := range []string{"tools__report", "tools__twice"} {
			if hidden := tried(t.Context(), c, name, `{"word":"x"}`) == strings.ReplaceAll(tried(t.Context(), c, "tools__none", `{"word":"x"}`), "tools__none", name); hidden == slices.Contains(want, name) {
				t.Errorf("%s: %s is hidden: %v", who, name, hidden)
			}
		}
	}
	why, err := r.Why(t.Context(), admin.WhyQuestion{Name: "tools__nowhere", As: "all"})
	if err != nil || !slices.ContainsFunc(why.View.Steps, func(s admin.WhyStep) bool {
		return s.Phase == composite.Name && strings.Contains(s.Reason, "it calls a__nothing, which is not there")
	}) {
		t.Errorf("why: %+v, %v", why, err)
	}

	// A part that is switched off takes the tool along, and brings it back.
	r.change(t, admin.CatalogChange{Op: admin.CatalogDisable, Name: "a__pid"})
	r.isHidden(t, all, "tools__report")
	r.change(t, admin.CatalogChange{Op: admin.CatalogEnable, Name: "a__pid"})
	text(t, all, "tools__report", `{"word":"again"}`)
}

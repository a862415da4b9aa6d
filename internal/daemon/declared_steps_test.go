//go:build !windows

package daemon_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/composite"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
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

// A tool with run_as is for whoever may call it, makes its calls by the capsule alone, and is
// no way to what it calls. The audit log has the caller and the capsule.
func TestStepsRunAs(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	tool := func(name string, more map[string]any) map[string]any {
		out := map[string]any{
			"name": name, "type": "steps", "input_schema": properties("word"),
			"steps": []any{map[string]any{"id": "said", "call": "a__echo", "with": map[string]any{"text": "{word}"}}},
		}
		maps.Copy(out, more)
		return out
	}
	section := declaring(tool("lent", map[string]any{"run_as": "desk"}), tool("plain", nil))
	section["auth"] = map[string]any{"keys": []any{
		map[string]any{"id": "user", "sha256": sum("user"), "subject": "user", "persona": "user"},
		map[string]any{"id": "nobody", "sha256": sum("nobody"), "subject": "nobody", "persona": "nobody"},
	}}
	section["capsules"] = map[string]any{
		"desk": map[string]any{"visible": []string{"a__*"}, "callable": []string{"a__echo"}},
		"user": map[string]any{"visible": []string{"tools__*"}, "callable": []string{"tools__*"}, "personas": []string{"user"}},
	}
	h.write(t, servers{"a": fake()}, section)
	r := h.newRunning(t)
	r.settle(t)
	user := r.Client(t, "user")
	if got := text(t, user, "tools__lent", `{"word":"hello"}`); !strings.Contains(got, "hello") {
		t.Errorf("the answer is %s", got)
	}
	r.isHidden(t, user, "a__echo")
	r.isHidden(t, user, "tools__plain")
	r.isHidden(t, r.Client(t, "nobody"), "tools__lent")

	if recent := h.calls(t, 2); !slices.ContainsFunc(recent, func(e audit.Entry) bool {
		return e.Name == "a__echo" && e.Parent != "" && e.Principal.Subject == "user" && e.Outcome == audit.OutcomeOK &&
			slices.ContainsFunc(e.Steps, func(s audit.Step) bool {
				return s.Phase == "capsule" && s.Verdict == "allow" && s.Rule == "run_as desk"
			})
	}) {
		t.Errorf("the audit log: %+v", recent)
	}
}

// Steps whose arguments cannot fit what a server lists are named in the status, and a call of
// their tool is refused before its first step, unless the step may fail.
func TestStepsThatDoNotFit(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	tool := func(name string, second map[string]any) map[string]any {
		return map[string]any{"name": name, "type": "steps", "input_schema": properties("word"), "steps": []any{
			map[string]any{"id": "first", "call": "util__echo", "with": map[string]any{"text": "{word}"}}, second,
		}}
	}
	h.write(t, servers{"a": fake()}, keyed(func(section map[string]any) {
		section["tools"] = []any{
			tool("lacks", map[string]any{"id": "second", "call": "util__echo"}),
			tool("number", map[string]any{"id": "second", "call": "util__echo", "with": map[string]any{"text": 7}}),
			tool("may", map[string]any{"id": "second", "call": "util__echo", "with": map[string]any{"txt": "a"}, "on_error": "continue"}),
			tool("fits", map[string]any{"id": "second", "call": "util__echo", "with": map[string]any{"text": "again {word}"}}),
			map[string]any{"name": "outer", "type": "steps", "steps": []any{map[string]any{"id": "a", "call": "tools__lacks", "with": map[string]any{"word": "x"}}}},
		}
	}, "alice"))
	r := h.newRunning(t)
	r.settle(t)
	status := r.Status()
	got := strings.Join(status.Misfits, "\n")
	for _, want := range []string{
		"the step second of tools__lacks does not fit util__echo: with: \"text\" is missing (add \"text\" (string)) [toolgate.yaml:1]",
		"the step second of tools__number does not fit util__echo: with.text: ",
		"the step second of tools__may does not fit util__echo: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the status lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "tools__fits") || strings.Contains(got, "tools__outer") || !slices.ContainsFunc(status.Alarms, func(a string) bool { return strings.Contains(a, "tools__lacks") }) {
		t.Errorf("the status: %s\n%q", got, status.Alarms)
	}
	alice := r.Client(t, "alice")
	for name, want := range map[string]string{
		"tools__lacks": "schema_refused", "tools__number": "schema_refused", "tools__outer": "schema_refused", "tools__may": "ok", "tools__fits": "ok",
	} {
		args := `{"word":"x"}`
		if name == "tools__outer" {
			args = `{}`
		}
		if got := tried(t.Context(), alice, name, args); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	inner := map[string]int{}
	for _, e := range h.calls(t, 9) {
		if e.Parent != "" {
			inner[e.Name+" "+string(e.Outcome)]++
		} else if e.Outcome != audit.OutcomeOK && !strings.Contains(e.Reason, "nothing was done: the step second of tools__") {
			t.Errorf("%s: %s", e.Name, e.Reason)
		}
	}
	if want := map[string]int{"util__echo ok": 3, "util__echo denied": 1}; !maps.Equal(inner, want) {
		t.Errorf("calls within calls: %v, want %v", inner, want)
	}
}

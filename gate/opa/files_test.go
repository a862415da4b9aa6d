package opa_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

// A policy that is made of the files and data of another one decides as that one.
func TestLoaded(t *testing.T) {
	t.Parallel()
	const rules = "package toolgate\n\ndefault decision := false\n\ndecision if {\n\tinput.tool_name in data.lists.allowed\n\tdata.tools[input.tool_name].risk == 3\n\tnot input.tool_name in data.global_tool_deny\n}\n"
	of := newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, files{
		"policy.rego": rules, "policy_test.rego": "package toolgate_test\n", "lists/data.json": `{"allowed":["a","b","c"]}`,
	})}})
	tools := map[string]opa.Tool{}
	for _, name := range []string{"a", "b"} {
		tools[name] = opa.Tool{Enabled: true, Attributes: map[string]any{"risk": json.Number("3")}}
	}
	if err := of.SetData(opa.Data{Tools: tools, GlobalToolDeny: []string{"b"}}); err != nil {
		t.Fatal(err)
	}
	loaded, data, ok := of.Loaded()
	if !ok || len(loaded) != 3 || loaded[0].IsModule() || !loaded[1].IsModule() || loaded[2].IsModule() {
		t.Fatalf("%v %+v", ok, loaded)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	var again opa.Data
	if err := json.Unmarshal(raw, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(data, again); diff != "" {
		t.Errorf("(-before +after) JSON:\n%s", diff)
	}
	next := newPhase(t, opa.Options{Files: loaded, Data: again})
	for name, want := range map[string]gate.Effect{"a": gate.Allow, "b": gate.Deny, "c": gate.Deny} {
		if was, now := decide(t, of, view(name)).Effect, decide(t, next, view(name)).Effect; was != want || now != want {
			t.Errorf("%s: %v, and with the same files %v; want %v", name, was, now, want)
		}
	}
}

// What has no place among the files of a policy is refused before it is looked at.
func TestFilesAreOfAPolicy(t *testing.T) {
	t.Parallel()
	good := opa.File{Name: "policy.rego", Data: []byte("package toolgate\ndecision := true\n")}
	for name, with := range map[string]opa.File{
		"outside": {Name: "../x.rego"}, "absolute": {Name: "/x.rego"}, "twice": good, "another kind": {Name: "x.txt"}, "data under another name": {Name: "x.json"}, "no name": {},
	} {
		if _, err := opa.New(t.Context(), opa.Options{Files: []opa.File{good, with}}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := opa.New(t.Context(), opa.Options{Files: []opa.File{good}, Settings: opa.Settings{Path: "x"}}); err == nil {
		t.Error("files and a path: accepted")
	}
	for _, text := range []string{`[]`, `{"global_tool_deny":"a"}`, `{"tools":{"a":true}}`} {
		var d opa.Data
		if err := json.Unmarshal([]byte(text), &d); err == nil {
			t.Errorf("data %s: accepted", text)
		}
	}
}

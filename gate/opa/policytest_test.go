package opa_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/opa"
)

func TestRunTests(t *testing.T) {
	t.Parallel()
	dir := folder(t, files{
		"policy.rego": "package toolgate\n\ndefault decision := false\n\ndecision if input.a == data.n\n",
		"data.json":   `{"n": 9007199254740993}`,
		"sub/policy_test.rego": `package toolgate_test

import data.toolgate

test_pass if toolgate.decision with input as {"a": 9007199254740993}

test_fail if {
	print("here", data.n)
	toolgate.decision with input as {"a": 9007199254740992}
}

todo_test_later if false

test_builtin_error if to_number("x") == 1

test_not_true := 7
`,
	})
	results, err := opa.RunTests(t.Context(), dir, opa.V1)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name       string
		pass, skip bool
		err        bool
		output     string
		line       int
	}{
		{name: "test_pass", pass: true, line: 5},
		{name: "test_fail", line: 7, output: "here 9007199254740993"},
		{name: "todo_test_later", skip: true, line: 12},
		{name: "test_builtin_error", err: true, line: 14},
		{name: "test_not_true", line: 16},
	}
	if len(results) != len(want) {
		t.Fatalf("results %+v", results)
	}
	for i, w := range want {
		r := results[i]
		if r.Name != "data.toolgate_test."+w.name || r.Pass != w.pass || r.Skip != w.skip || (r.Err != nil) != w.err ||
			strings.TrimSpace(r.Output) != w.output || r.Line != w.line || !strings.HasSuffix(r.File, "sub/policy_test.rego") {
			t.Errorf("result %+v, want %+v", r, w)
		}
	}
}

// Tests have what policies have, and no more.
func TestRunTestsRefuses(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]files{
		"undefined function http.send": {"a_test.rego": "package a_test\n\ntest_a if http.send({}).x"},
		"a_test.rego:3":                {"a_test.rego": "package a_test\n\ntest_a if {{"},
		"has no rule test_":            {"a.rego": "package a\n\nx := 1"},
		"global_tool_deny":             {"a_test.rego": "package a_test\n\ntest_a if true", "data.json": `{"global_tool_deny": 1}`},
	} {
		if r, err := opa.RunTests(t.Context(), folder(t, f), opa.V1); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: results %+v, error %v", name, r, err)
		}
	}
	if _, err := opa.RunTests(t.Context(), defaultPolicy, "v9"); err == nil {
		t.Error("an unknown version was taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := opa.RunTests(ctx, defaultPolicy, opa.V1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// All that is wrong is said at once, each with its file and line.
func TestCheck(t *testing.T) {
	t.Parallel()
	parse := folder(t, files{
		"a.rego": "package a\n\nx = = 1\n", "b.rego": "package b\n\nx := 1\n\ny = = 1\n", "data.json": "{\n\"tools\": 1,\n}",
		"other.json": "{}",
	})
	// What is in a file under a wrong name is told before anything is parsed.
	if got := opa.Check(opa.V1, parse); len(got) != 1 || !strings.Contains(got[0].Text, "other.json") {
		t.Errorf("problems %+v", got)
	}
	broken := folder(t, files{
		"a.rego": "package a\n\nx = = 1\n", "b_test.rego": "package b\n\nx := 1\n\ny = = 1\n", "data.json": "{\n\"tools\": 1,\n}",
		"persona_tool_deny/data.json": `[]`,
	})
	compile := folder(t, files{
		"a.rego": "package a\n\nw if {\n\tunused := 1\n}\n\nz if {\n\tunused := 1\n}\n", "b.rego": "package b\n\nx := 1\n",
		"b_test.rego": "package b_test\n\ntest_x if {\n\tunused := 1\n}\n",
	})
	conflict := folder(t, files{"a.rego": "package a\n\nx := 1\n", "a/data.json": `{"x": 1}`})
	tests := []struct {
		dir  string
		want []string
	}{
		{broken, []string{"a.rego:3", "b_test.rego:5", "data.json:3"}},
		{compile, []string{"a.rego:4", "a.rego:8"}},
		{conflict, []string{"a.rego:3"}},
		{folder(t, files{"data.json": `{"tools": [], "global_tool_deny": {}}`}), []string{"data.json:0", "data.json:0"}},
	}
	for _, tt := range tests {
		var got []string
		for _, p := range opa.Check(opa.V1, tt.dir) {
			at := strings.TrimPrefix(p.File, tt.dir+"/") + ":" + string(rune('0'+p.Line))
			if len(got) == 0 || got[len(got)-1] != at || p.Line == 0 {
				got = append(got, at)
			}
			if p.Text == "" || p.Err == nil || strings.Contains(p.Text, p.File) {
				t.Errorf("problem %+v", p)
			}
		}
		if strings.Join(got, " ") != strings.Join(tt.want, " ") {
			t.Errorf("problems at %v, want %v", got, tt.want)
		}
	}
	if got := opa.Check(opa.V1, broken, compile, defaultPolicy); len(got) < 6 {
		t.Errorf("problems of several: %+v", got)
	}
	if got := opa.Check(opa.V1, "testdata/none"); len(got) != 1 || !strings.Contains(got[0].Text, "testdata/none") {
		t.Errorf("problems %+v", got)
	}
	if got := opa.Check("v9", defaultPolicy); len(got) != 1 {
		t.Errorf("problems %+v", got)
	}
}

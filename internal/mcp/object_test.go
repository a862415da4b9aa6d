package mcp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestMembersWalksInOrder(t *testing.T) {
	type member struct{ All, Key, Value string }
	for in, want := range map[string][]member{
		`{}`:        nil,
		` { } `:     nil,
		``:          nil,
		`null`:      nil,
		`[{"a":1}]`: nil,
		`"{"`:       nil,
		`{"a":1}`:   {{`"a":1`, `a`, `1`}},
		" {\n\"b\" : [1, {\"x\":2}] ,\t\"a\":\"}\" , \"\":-1.5e3}": {
			{`"b" : [1, {"x":2}]`, `b`, `[1, {"x":2}]`},
			{`"a":"}"`, `a`, `"}"`},
			{`"":-1.5e3`, ``, `-1.5e3`},
		},
		`{"\"\\":"\\","\\\\":{"\"}":[]},"z":null}`: {
			{`"\"\\":"\\"`, `\"\\`, `"\\"`},
			{`"\\\\":{"\"}":[]}`, `\\\\`, `{"\"}":[]}`},
			{`"z":null`, `z`, `null`},
		},
	} {
		var got []member
		for m := range mcp.Members([]byte(in)) {
			got = append(got, member{string(m.All.Of([]byte(in))), string(m.KeyText.Of([]byte(in))), string(m.Value.Of([]byte(in)))})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Members(%s) (-want +got):\n%s", in, diff)
		}
	}
	for m := range mcp.Members([]byte(`{"a":1,"b":2}`)) {
		if m.KeyText != (mcp.Span{Start: 2, End: 3}) {
			t.Errorf("went on to %v after the loop ended", m)
		}
		break
	}
}

func TestElementsWalksInOrder(t *testing.T) {
	for in, want := range map[string][]string{
		`[]`:      nil,
		" [ \n] ": nil,
		``:        nil,
		`{"a":1}`: nil,
		`"[1]"`:   nil,
		"[1 , -2.5e1,\ttrue, null,\"],\\\"\" ,[ [3],4 ], {\"a\":[5]}\n]": {`1`, `-2.5e1`, `true`, `null`, `"],\""`, `[ [3],4 ]`, `{"a":[5]}`},
	} {
		var got []string
		for e := range mcp.Elements([]byte(in)) {
			got = append(got, string(e.Of([]byte(in))))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Elements(%s) (-want +got):\n%s", in, diff)
		}
	}
	for e := range mcp.Elements([]byte(`[1,2]`)) {
		if e != (mcp.Span{Start: 1, End: 2}) {
			t.Errorf("went on to %v after the loop ended", e)
		}
		break
	}
}

func TestLookup(t *testing.T) {
	object := []byte(` {"a":{"b":{"c":1,"":2}},"b":"top","\u0061b":[{"a":3}],"A":4,"😀":5,"n":null}`)
	for _, tc := range []struct {
		path []string
		want string // empty is absent
	}{
		{[]string{"a", "b", "c"}, `1`},
		{[]string{"a", "b", ""}, `2`},
		{[]string{"a", "b"}, `{"c":1,"":2}`},
		{[]string{"b"}, `"top"`},
		{[]string{"ab"}, `[{"a":3}]`},
		{[]string{"A"}, `4`},
		{[]string{"😀"}, `5`},
		{[]string{"n"}, `null`},
		{[]string{"c"}, ``},
		{[]string{`\u0061b`}, ``},
		{[]string{"b", "x"}, ``},
		{[]string{"ab", "a"}, ``}, // no way through an array
		{[]string{"n", "x"}, ``},
		{[]string{"a", "b", "c", "d"}, ``},
		{nil, string(object)},
	} {
		got := mcp.Lookup(object, tc.path...)
		if string(got) != tc.want || (got == nil) != (tc.want == "") {
			t.Errorf("Lookup(%q) = %q, want %q", tc.path, got, tc.want)
		}
		span := mcp.LookupSpan(object, tc.path...)
		if span.Absent() != (tc.want == "") || string(span.Of(object)) != tc.want {
			t.Errorf("LookupSpan(%q) = %v", tc.path, span)
		}
	}
	if text, ok := mcp.LookupString(object, "b"); text != "top" || !ok {
		t.Errorf("LookupString(b) = %q, %t", text, ok)
	}
	for _, path := range []string{"a", "A", "n", "absent"} {
		if text, ok := mcp.LookupString(object, path); text != "" || ok {
			t.Errorf("LookupString(%s) = %q, %t", path, text, ok)
		}
	}
	for _, in := range [][]byte{nil, {}, []byte("[1]"), []byte("7")} {
		if got := mcp.Lookup(in, "a"); got != nil {
			t.Errorf("Lookup in %q = %q", in, got)
		}
	}
}

func TestKindsOfValues(t *testing.T) {
	for in, want := range map[string][2]bool{
		`{}`: {true, false}, "\n {": {true, false}, `[]`: {false, true}, "\t[1]": {false, true},
		`"{"`: {}, `1`: {}, `null`: {}, ``: {}, ` `: {},
	} {
		if got := [2]bool{mcp.IsObject([]byte(in)), mcp.IsArray([]byte(in))}; got != want {
			t.Errorf("%q is an object %t, an array %t", in, got[0], got[1])
		}
	}
}

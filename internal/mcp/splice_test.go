package mcp_test

import (
	"bytes"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestSplice(t *testing.T) {
	edit := func(start, end int, text string) mcp.Edit {
		return mcp.Edit{Span: mcp.Span{Start: start, End: end}, New: []byte(text)}
	}
	raw := []byte("0123456789")
	for _, tc := range []struct {
		edits []mcp.Edit
		want  string
	}{
		{nil, "0123456789"},
		{[]mcp.Edit{edit(0, 1, "")}, "123456789"},
		{[]mcp.Edit{edit(9, 10, "nine")}, "012345678nine"},
		{[]mcp.Edit{edit(0, 10, "")}, ""},
		{[]mcp.Edit{edit(7, 9, "B"), edit(2, 3, "AAAA")}, "01AAAA3456B9"},
		{[]mcp.Edit{edit(2, 3, "A"), edit(3, 5, "B")}, "01AB56789"},
		{[]mcp.Edit{edit(0, 0, "<"), edit(10, 10, ">")}, "<0123456789>"},
		{[]mcp.Edit{edit(4, 6, "_"), edit(4, 4, "before")}, "0123before_6789"},
		{[]mcp.Edit{edit(4, 4, "a"), edit(4, 4, "b")}, "0123ab456789"},
	} {
		if got := string(mcp.Splice(raw, tc.edits...)); got != tc.want {
			t.Errorf("Splice(%v) = %s, want %s", tc.edits, got, tc.want)
		}
	}
	if string(raw) != "0123456789" {
		t.Errorf("Splice changed its input to %s", raw)
	}
	if out := mcp.Splice(raw); &out[0] == &raw[0] {
		t.Error("Splice returned its input")
	}
}

func TestSetMember(t *testing.T) {
	for _, tc := range []struct{ object, key, value, want string }{
		{``, "a", `1`, `{"a":1}`},
		{`{}`, "a", `1`, `{"a":1}`},
		{" { } ", "a", `1`, ` {"a":1 } `},
		{`{"b":2}`, "a", `1`, `{"a":1,"b":2}`},
		{"{\n  \"b\": 2\n}", "a", `1`, "{\"a\":1,\n  \"b\": 2\n}"},
		{`{"a":{"x":[1]},"b":2}`, "a", `1`, `{"a":1,"b":2}`},
		{`{"b":2, "a" : null }`, "a", `{"n":1}`, `{"b":2, "a" : {"n":1} }`},
		{`{"\u0061":0}`, "a", `1`, `{"\u0061":1}`},
		{`{"x":{"a":0}}`, "a", `1`, `{"a":1,"x":{"a":0}}`},
		{`{"A":0}`, "a", `1`, `{"a":1,"A":0}`},
		{`{}`, "q\"\n世", `1`, `{"q\"\n世":1}`},
	} {
		in := []byte(tc.object)
		if got := string(mcp.SetMember(in, tc.key, []byte(tc.value))); got != tc.want {
			t.Errorf("SetMember(%s, %s) = %s, want %s", tc.object, tc.key, got, tc.want)
		}
		if string(in) != tc.object {
			t.Errorf("SetMember changed its input to %s", in)
		}
	}
	if got := string(mcp.SetMember(nil, "a", []byte("1"))); got != `{"a":1}` {
		t.Errorf("SetMember(nil) = %s", got)
	}
}

func TestRemoveMember(t *testing.T) {
	for _, tc := range []struct{ object, key, want string }{
		{`{}`, "a", `{}`},
		{`{"b":1}`, "a", `{"b":1}`},
		{`{"a":1}`, "a", `{}`},
		{`{ "a" : {"a":1} }`, "a", `{  }`},
		{`{"a":1,"b":2}`, "a", `{"b":2}`},
		{`{ "a":1 , "b":2 }`, "a", `{ "b":2 }`},
		{`{"b":2 , "a":1 }`, "a", `{"b":2 }`},
		{`{"b":2, "a":1, "c":3}`, "a", `{"b":2, "c":3}`},
		{`{"b":2,"\u0061":1}`, "a", `{"b":2}`},
		{`{"b":{"a":1}}`, "a", `{"b":{"a":1}}`},
		{`{"b":"\"a\":1","a":"},{","c":[]}`, "a", `{"b":"\"a\":1","c":[]}`},
		{`[1]`, "a", `[1]`},
	} {
		in := []byte(tc.object)
		if got := string(mcp.RemoveMember(in, tc.key)); got != tc.want {
			t.Errorf("RemoveMember(%s, %s) = %s, want %s", tc.object, tc.key, got, tc.want)
		}
		if string(in) != tc.object {
			t.Errorf("RemoveMember changed its input to %s", in)
		}
	}
}

func TestForwarded(t *testing.T) {
	for object, want := range map[string]string{
		``:                        `{"name":"n"}`,
		`{}`:                      `{"name":"n"}`,
		`{"name":"old"}`:          `{"name":"n"}`,
		`{"a":1,"name":"old"}`:    `{"a":1,"name":"n"}`,
		`{"a":1,"_meta":{"b":2}}`: `{"name":"n","a":1,"_meta":{"b":2}}`,
		`{"name":"old","_meta":{"progressToken":1}}`:                     `{"name":"n"}`,
		`{"_meta":{"progressToken":1},"name":"old"}`:                     `{"name":"n"}`,
		`{ "_meta" : {"progressToken":1} , "name" : "old" , "a":1 }`:     `{ "name" : "n" , "a":1 }`,
		`{"name":"old" ,"_meta":{"progressToken":1,"b":2}, "a":1}`:       `{"name":"n" ,"_meta":{"b":2}, "a":1}`,
		`{"_meta":{"b":2,"progressToken":1},"n\u0061me":"old"}`:          `{"_meta":{"b":2},"n\u0061me":"n"}`,
		`{"a":{"name":1},"_meta":{"progressToken":1},"name":{"name":2}}`: `{"a":{"name":1},"name":"n"}`,
		`{"_meta":{"b":2},"name":"old"}`:                                 `{"_meta":{"b":2},"name":"n"}`,
	} {
		if got := string(mcp.Forwarded([]byte(object), "name", []byte(`"n"`))); got != want {
			t.Errorf("Forwarded(%s) = %s, want %s", object, got, want)
		}
		if got := string(mcp.RewriteMeta(mcp.SetMember([]byte(object), "name", []byte(`"n"`)), nil)); got != want {
			t.Errorf("in two steps %s becomes %s, want %s", object, got, want)
		}
	}
}

func TestRewriteMeta(t *testing.T) {
	for _, tc := range []struct{ object, add, want string }{
		{``, ``, ``},
		{``, `"progressToken":7`, `{"_meta":{"progressToken":7}}`},
		{`{"a":1}`, ``, `{"a":1}`},
		{`{"a":1}`, `"p":7`, `{"_meta":{"p":7},"a":1}`},
		// empty and wrong ones
		{`{"_meta":{},"a":1}`, ``, `{"_meta":{},"a":1}`},
		{`{"_meta":{ },"a":1}`, `"p":7`, `{"_meta":{"p":7},"a":1}`},
		{`{"_meta":null}`, ``, `{"_meta":null}`},
		{`{"_meta":null,"a":1}`, `"p":7`, `{"_meta":{"p":7},"a":1}`},
		{`{"a":1,"_meta":[{"progressToken":1}]}`, `"p":7`, `{"a":1,"_meta":{"p":7}}`},
		// only hop keys
		{`{"_meta":{"progressToken":1},"a":1}`, ``, `{"a":1}`},
		{`{"a":1,"_meta":{"io.modelcontextprotocol/x":1,"progressToken":2}}`, ``, `{"a":1}`},
		{`{"_meta":{"progress\u0054oken":1}}`, ``, `{}`},
		{`{"\u005fmeta":{"io.modelcontextprotocol\/x":1}}`, `"p":7`, `{"\u005fmeta":{"p":7}}`},
		// others stay
		{`{"_meta":{ "traceparent" : "00-1" , "x":{"progressToken":1} }}`, ``, `{"_meta":{ "traceparent" : "00-1" , "x":{"progressToken":1} }}`},
		{`{"_meta":{"traceparent":"00-1","progressToken":1,"b":9007199254740993}}`, ``, `{"_meta":{"traceparent":"00-1","b":9007199254740993}}`},
		{`{"_meta":{"b":1},"x":1}`, `"progressToken":"t"`, `{"_meta":{"b":1,"progressToken":"t"},"x":1}`},
		{`{"_meta":{"progressToken":1,"b":[ 1 ]}}`, `"p":7,"q":8`, `{"_meta":{"b":[ 1 ],"p":7,"q":8}}`},
		// other levels are not ours
		{`{"x":{"_meta":{"progressToken":1}}}`, ``, `{"x":{"_meta":{"progressToken":1}}}`},
		{`{"_meta":{"io.modelcontextprotocolx/y":1,"IO":2}}`, ``, `{"_meta":{"io.modelcontextprotocolx/y":1,"IO":2}}`},
	} {
		in := []byte(tc.object)
		if got := string(mcp.RewriteMeta(in, []byte(tc.add))); got != tc.want {
			t.Errorf("RewriteMeta(%s, %s) = %s, want %s", tc.object, tc.add, got, tc.want)
		}
		if string(in) != tc.object {
			t.Errorf("RewriteMeta changed its input to %s", in)
		}
	}
	if got := mcp.RewriteMeta(nil, nil); got != nil {
		t.Errorf("RewriteMeta(nil) = %q", got)
	}
}

// TestRewrittenPartsDoNotShareGrowth guards the message against a caller that
// appends to what a splice returned.
func TestRewrittenPartsDoNotShareGrowth(t *testing.T) {
	raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}`)
	m, err := mcp.Parse(raw, mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(raw)
	_ = append(mcp.RewriteMeta(m.Params(), nil), "!"...)
	_ = append(mcp.RemoveMember(m.Params(), "b"), "!"...)
	if !bytes.Equal(before, raw) {
		t.Errorf("the message became %s", raw)
	}
}

func TestHopKey(t *testing.T) {
	for key, want := range map[string]bool{
		"progressToken": true, mcp.MetaVersion: true, mcp.MetaPrefix: true, mcp.MetaPrefix + "related-task": true,
		"traceparent": false, "tracestate": false, "baggage": false, "com.example/progressToken": false,
		"": false, "io.modelcontextprotocol": false, "dev.toolgate/refusal": true, "dev.toolgate": false,
	} {
		if got := mcp.HopKey(key); got != want {
			t.Errorf("HopKey(%q) = %t", key, got)
		}
	}
}

package mcp_test

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestCanonicalForm(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{``, ``},
		{` null `, `null`},
		{"\n-1.50e+3\t", `-1.50e+3`},
		{`[ ]`, `[]`},
		{`{ }`, `{}`},
		{"{ \"b\" : [ 1 , {\"y\":0, \"x\":\"\\u0041\"} ],\r\n \"a\":true}", `{"a":true,"b":[1,{"x":"A","y":0}]}`},
		// keys by their bytes in UTF-8, not in UTF-16 and not as spelled
		{`{"\ufb33":1,"😀":2,"z":3,"":4,"\u0061b":5,"a":6,"\n":7,"!":8}`, `{"":4,"\n":7,"!":8,"a":6,"ab":5,"z":3,"` + "\ufb33" + `":1,"😀":2}`},
		{`{"a\"":1,"a!":2,"a\\":3,"a\u001f":4}`, `{"a\u001f":4,"a!":2,"a\"":1,"a\\":3}`},
		// numbers as received
		{`[1,1.0,1e0,10e-1,-0,9007199254740993]`, `[1,1.0,1e0,10e-1,-0,9007199254740993]`},
		// the fewest escapes
		{`"\/\u002f\u00e9\ud83d\ude00\u0000\u001F\u007f\u0022\u005C\u0008\u000A"`, `"//é😀\u0000\u001f` + "\u007f" + `\"\\\b\n"`},
		{`"\u2028<"`, "\"\u2028<\""},
		// half a pair stays what it is, in one spelling
		{`["\uD800","\udfff\u0041","\ud800\ud83d\ude00","\ud83dx\uDE00"]`, `["\ud800","\udfffA","\ud800😀","\ud83dx\ude00"]`},
		{`["\ud83dxude00","\ud83d\\ude00"]`, `["\ud83dxude00","\ud83d\\ude00"]`},
		{`"\ufffd"`, "\"\ufffd\""},
		// objects in arrays in objects, out of order
		{`{"z":[[],{}, [{"b":[{}],"a":{"d":[],"c":[[1]]}}]],"y":{},"x":[]}`, `{"x":[],"y":{},"z":[[],{},[{"a":{"c":[[1]],"d":[]},"b":[{}]}]]}`},
		{`{"b":"]}","a":"[{\"","c":{"b":"\\","a":"\\\""}}`, `{"a":"[{\"","b":"]}","c":{"a":"\\\"","b":"\\"}}`},
	} {
		if got := string(mcp.AppendCanonical(nil, []byte(tc.in))); got != tc.want {
			t.Errorf("AppendCanonical(%s) = %s, want %s", tc.in, got, tc.want)
		}
	}
	if got := string(mcp.AppendCanonical([]byte("x"), []byte(`[ 1 ]`))); got != `x[1]` {
		t.Errorf("AppendCanonical behind x = %s", got)
	}
}

func TestHashTellsMeaningsApart(t *testing.T) {
	same := [][2]string{
		{`{"a":1,"b":2}`, ` { "b" : 2 , "\u0061" : 1 } `},
		{`"é😀"`, `"\u00e9\ud83d\ude00"`},
		{`{}`, `{ }`},
	}
	for _, pair := range same {
		if mcp.Hash([]byte(pair[0])) != mcp.Hash([]byte(pair[1])) {
			t.Errorf("%s and %s have two hashes", pair[0], pair[1])
		}
	}
	different := [][2]string{
		{`1`, `1.0`},
		{`1`, `"1"`},
		{`[1,2]`, `[2,1]`},
		{`9007199254740993`, `9007199254740992`},
		{`{"a":null}`, `{}`},
		{`{"a":"1,b"}`, `{"a":"1","b":""}`},
		{`"\ud800"`, `"\ufffd"`},
		{`"\ud800"`, `"\ud801"`},
		{`"\ud800"`, `"\\ud800"`},
		{`"é"`, `"e\u0301"`},
	}
	for _, pair := range different {
		if mcp.Hash([]byte(pair[0])) == mcp.Hash([]byte(pair[1])) {
			t.Errorf("%s and %s share a hash", pair[0], pair[1])
		}
	}
	if mcp.Hash(nil) != mcp.Hash([]byte(`{}`)) {
		t.Error("absent arguments hash otherwise than empty ones")
	}
}

// deepOutOfOrder has 250 levels around a long array, each with unsorted keys. Reading
// all nested values at every level would cost 250 times its size.
func deepOutOfOrder(elements int) (in, canonical string) {
	const levels = 250
	numbers := "[" + strings.Repeat("1,", elements) + "1]"
	in = strings.Repeat(`{"b":`, levels) + numbers + strings.Repeat(`,"a":0}`, levels)
	canonical = strings.Repeat(`{"a":0,"b":`, levels) + numbers + strings.Repeat(`}`, levels)
	return in, canonical
}

func TestCanonicalFormOfDeepDocuments(t *testing.T) {
	in, want := deepOutOfOrder(3)
	if got := string(mcp.AppendCanonical(nil, []byte(in))); got != want {
		t.Errorf("AppendCanonical = %s, want %s", got, want)
	}
}

package mcp

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/toolgate/toolgate/internal/arena"
)

// What is known of a result is what a search of it finds.
func FuzzKnown(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"content":[]}`, `{"resultType":"complete"}`, `{"resultType":""}`, `{"resultType":7,"isError":true}`, `{"result\u0054ype":"complete","\u0069sError":true}`,
		`{"a":{"isError":true,"_meta":{}},"_meta":{"resultType":"task"}}`, `{"requestState":"x","inputRequests":{},"structuredContent":null,"ttlMs":0,"cacheScope":"private"}`,
		` { "isError" : false } `, `{"content":[{"type":"resource","resource":{"uri":"a:b"}}]}`, `{"a":["uri"],"b":"uri"}`,
		`{"_meta":{"ui":{"resourceUri":"ui://x"}}}`, `{"_meta":{"ui/resource\u0055ri":"ui://x"}}`, `{"_meta":{"openai/outputTemplate":"ui://x"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		msg, err := Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":`+string(raw)+`}`), Limits{})
		if err != nil {
			return
		}
		result := msg.LentResult()
		if !bytes.Equal(result, msg.Result()) {
			t.Fatalf("%q is not %q", result, msg.Result())
		}
		known := msg.KnownResult(result)
		for _, name := range knownNames {
			if absent := LookupSpan(result, name).Absent(); known.Lacks(result, name) != absent {
				t.Errorf("%s of %q: lacks is %v", name, result, !absent)
			}
		}
		if failed := string(Lookup(result, "isError")) == "true"; known.Succeeded(result) == failed {
			t.Errorf("%q: succeeded is %v", result, !failed)
		}
		if uri := hasURI(result); uri && known.LacksURI(result) {
			t.Errorf("%q: a URI is not seen", result)
		}
		kind, typed := LookupString(result, "resultType")
		if k, ok := known.Kind(result); k != kind || ok != typed {
			t.Errorf("%q: kind %q, %v; want %q, %v", result, k, ok, kind, typed)
		}
		other := bytes.Clone(result)
		var nothing Known
		if known.Succeeded(other) || known.LacksURI(other) || nothing.Succeeded(result) || nothing.LacksURI(result) {
			t.Errorf("%q: more is known than was seen", result)
		}
		if known.Lacks(other, "isError") || nothing.Lacks(result, "isError") || known.Lacks(result, "content") {
			t.Errorf("%q: more is known than was seen", result)
		}
		if k, ok := nothing.Kind(other); k != kind || ok != typed {
			t.Errorf("%q: kind without knowledge %q, %v", result, k, ok)
		}
	})
}

// hasURI looks for a key of a URI at any depth, by the library.
func hasURI(value []byte) bool {
	d := json.NewDecoder(bytes.NewReader(value))
	var open []bool // whether the innermost are objects, and a key comes next
	for key := false; ; {
		token, err := d.Token()
		if err != nil {
			return false
		}
		text, isText := token.(string)
		if key && isText && slices.Contains([]string{"uri", "resourceUri", "ui/resourceUri", "openai/outputTemplate"}, text) {
			return true
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			open = append(open, token == json.Delim('{'))
			key = token == json.Delim('{')
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
			key = len(open) > 0 && open[len(open)-1]
			continue
		}
		key = len(open) > 0 && open[len(open)-1] && !key
	}
}

// An object grows in place with the same bytes as elsewhere.
func TestAddMeta(t *testing.T) {
	for _, object := range []string{`{}`, `{ }`, `{"a":1}`, `{ "a":1}`, `{"a":1,"b":[]}`, ` {"a":1}`} {
		var memory arena.Arena
		lent := memory.Take(arena.Least)[:len(object)]
		copy(lent, object)
		want := insertFirst([]byte(object), []byte(`"_meta":{"x/y":7}`))
		if got := AddMeta(&memory, lent, []byte(`"x/y":7`)); !bytes.Equal(got, want) {
			t.Errorf("%s: %s, want %s", object, got, want)
		}
		if got := AddMeta(nil, []byte(object), []byte(`"x/y":7`)); !bytes.Equal(got, want) {
			t.Errorf("%s elsewhere: %s, want %s", object, got, want)
		}
		memory.Free()
	}
	if got := AddMeta(nil, []byte(`{"a":1}`), nil); string(got) != `{"a":1}` {
		t.Errorf("nothing added: %s", got)
	}
}

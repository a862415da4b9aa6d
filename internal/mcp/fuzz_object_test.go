package mcp_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
)

// objects are the seeds of the targets in this file.
var objects = []string{
	`{}`,
	" { \"b\" : [ 1 , {\"x\":\"]\"} ] ,\n\"a\":\"}\\\"\",\"\":{} } ",
	`{"\u0061":1,"_meta":{"progressToken":1,"x":[],"io.modelcontextprotocol/y":null},"z":-0.1e1}`,
	`{"\u005fmeta":{ "progress\u0054oken" : 1 , "io.modelcontextprotocol\/z":2 }}`,
	`{"_meta":{"a":{"_meta":{"progressToken":1}}},"a":9007199254740993}`,
	`{"_meta":null,"a":"\\"}`,
	`[{"a":[[],{}]}, "\\\"", null ]`,
}

// strictObject reports whether an input is a validated object; the targets skip all
// others.
func strictObject(data []byte) bool {
	return mcp.Validate(data, mcp.Limits{}) == nil && mcp.IsObject(data)
}

// textMember is a member by its text: key without escapes, all, and value.
type textMember struct{ Key, All, Value string }

func textMembers(t *testing.T, object []byte) (all []textMember) {
	t.Helper()
	for m := range mcp.Members(object) {
		key, err := mcp.Unquote(m.Key(object))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, textMember{key, string(m.All.Of(object)), string(m.Value.Of(object))})
	}
	return all
}

// FuzzMembers compares the walks over objects and arrays with encoding/json.
func FuzzMembers(f *testing.F) {
	for _, seed := range objects {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if mcp.Validate(data, mcp.Limits{}) != nil {
			return
		}
		type pair struct{ Key, Value string }
		var want, got []pair
		switch {
		case mcp.IsObject(data):
			dec := json.NewDecoder(bytes.NewReader(data))
			token(t, dec)
			for dec.More() {
				key, _ := token(t, dec).(string)
				want = append(want, pair{key, rawValue(t, dec)})
			}
			for _, m := range textMembers(t, data) {
				got = append(got, pair{m.Key, m.Value})
				if err := mcp.Validate([]byte("{"+m.All+"}"), mcp.Limits{}); err != nil {
					t.Fatalf("member %q: %v", m.All, err)
				}
			}
		case mcp.IsArray(data):
			dec := json.NewDecoder(bytes.NewReader(data))
			token(t, dec)
			for dec.More() {
				want = append(want, pair{"", rawValue(t, dec)})
			}
			for e := range mcp.Elements(data) {
				got = append(got, pair{"", string(e.Of(data))})
			}
		default:
			for range mcp.Members(data) {
				t.Fatal("a scalar has members")
			}
			for range mcp.Elements(data) {
				t.Fatal("a scalar has elements")
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-encoding/json +Members):\n%s", diff)
		}
	})
}

func token(t *testing.T, dec *json.Decoder) json.Token {
	t.Helper()
	tok, err := dec.Token()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func rawValue(t *testing.T, dec *json.Decoder) string {
	t.Helper()
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// FuzzLookup compares a lookup by two keys with encoding/json.
func FuzzLookup(f *testing.F) {
	for _, seed := range objects {
		f.Add([]byte(seed), "a", "x")
		f.Add([]byte(seed), "_meta", "progressToken")
	}
	f.Fuzz(func(t *testing.T, data []byte, first, second string) {
		if mcp.Validate(data, mcp.Limits{}) != nil {
			return
		}
		one := members(t, data)[first]
		two := members(t, one)[second]
		if got := mcp.Lookup(data, first); !bytes.Equal(got, one) || (got == nil) != (one == nil) {
			t.Fatalf("Lookup(%q) = %q, want %q", first, got, one)
		}
		if got := mcp.Lookup(data, first, second); !bytes.Equal(got, two) || (got == nil) != (two == nil) {
			t.Fatalf("Lookup(%q, %q) = %q, want %q", first, second, got, two)
		}
		var text string
		isText := len(two) > 0 && two[0] == '"'
		if isText {
			unmarshal(t, two, &text)
		}
		if got, ok := mcp.LookupString(data, first, second); got != text || ok != isText {
			t.Fatalf("LookupString(%q, %q) = %q, %t, want %q", first, second, got, ok, text)
		}
	})
}

// FuzzSplice compares with plain concatenation.
func FuzzSplice(f *testing.F) {
	f.Add("0123456789", 2, 3, 5, 9, "new", "")
	f.Add("", 0, 0, 0, 0, "a", "b")
	f.Fuzz(func(t *testing.T, raw string, a, b, c, d int, x, y string) {
		if a < 0 || a > b || b > c || c > d || d > len(raw) || a == c && c < d {
			return
		}
		want := raw[:a] + x + raw[b:c] + y + raw[d:]
		first := mcp.Edit{Span: mcp.Span{Start: a, End: b}, New: []byte(x)}
		second := mcp.Edit{Span: mcp.Span{Start: c, End: d}, New: []byte(y)}
		if got := string(mcp.Splice([]byte(raw), first, second)); got != want {
			t.Fatalf("Splice = %q, want %q", got, want)
		}
		if a == c { // two insertions at one place keep the order they come in
			return
		}
		if got := string(mcp.Splice([]byte(raw), second, first)); got != want {
			t.Fatalf("Splice in the other order = %q, want %q", got, want)
		}
	})
}

// FuzzSetMember sets a member: it exists once, and all others are unchanged.
func FuzzSetMember(f *testing.F) {
	for _, seed := range objects {
		f.Add([]byte(seed), "a", []byte(`{"n":[1]}`))
		f.Add([]byte(seed), "new\"\n", []byte(`null`))
	}
	f.Fuzz(func(t *testing.T, object []byte, key string, value []byte) {
		if !strictObject(object) || !utf8.ValidString(key) || mcp.Validate(value, mcp.Limits{}) != nil {
			return
		}
		original := bytes.Clone(object)
		out := mcp.SetMember(object, key, value)
		if err := mcp.Validate(out, mcp.Limits{Depth: 2 * mcp.DefaultDepth}); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if got := mcp.Lookup(out, key); !bytes.Equal(got, bytes.Trim(value, " \t\r\n")) {
			t.Fatalf("%q is %q, want %q", key, got, value)
		}
		wantOthers(t, object, out, key)
		if !bytes.Equal(object, original) {
			t.Fatal("SetMember changed its input")
		}
	})
}

// FuzzRemoveMember removes a member: it is gone and all others are unchanged.
func FuzzRemoveMember(f *testing.F) {
	for _, seed := range objects {
		f.Add([]byte(seed), "a")
		f.Add([]byte(seed), "_meta")
	}
	f.Fuzz(func(t *testing.T, object []byte, key string) {
		if !strictObject(object) {
			return
		}
		original := bytes.Clone(object)
		out := mcp.RemoveMember(object, key)
		if err := mcp.Validate(out, mcp.Limits{}); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if got := mcp.Lookup(out, key); got != nil {
			t.Fatalf("%q is still %q", key, got)
		}
		wantOthers(t, object, out, key)
		if mcp.Lookup(object, key) == nil && !bytes.Equal(out, object) {
			t.Fatalf("nothing to remove, and %q became %q", object, out)
		}
		if !bytes.Equal(object, original) {
			t.Fatal("RemoveMember changed its input")
		}
	})
}

// wantOthers checks that two objects have the same members in the same order, byte for
// byte, except for the one with a key.
func wantOthers(t *testing.T, before, after []byte, key string) {
	t.Helper()
	others := func(object []byte) (all []textMember) {
		for _, m := range textMembers(t, object) {
			if m.Key != key {
				all = append(all, m)
			}
		}
		return all
	}
	if diff := cmp.Diff(others(before), others(after)); diff != "" {
		t.Fatalf("other members (-before +after):\n%s", diff)
	}
}

// FuzzRewriteMeta rewrites _meta: no hop keys are left except the added ones, which
// come last; everything else is unchanged.
func FuzzRewriteMeta(f *testing.F) {
	additions := []string{
		``,
		`"progressToken":7`,
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}`,
	}
	for _, seed := range objects {
		for n := range additions {
			f.Add([]byte(seed), uint8(n))
		}
	}
	f.Fuzz(func(t *testing.T, object []byte, n uint8) {
		if !strictObject(object) {
			return
		}
		add := additions[int(n)%len(additions)]
		original := bytes.Clone(object)
		out := mcp.RewriteMeta(object, []byte(add))
		if err := mcp.Validate(out, mcp.Limits{Depth: mcp.DefaultDepth + 2}); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		wantOthers(t, object, out, "_meta")

		before, after := mcp.Lookup(object, "_meta"), mcp.Lookup(out, "_meta")
		var want []string
		for _, m := range textMembers(t, before) {
			if !mcp.HopKey(m.Key) {
				want = append(want, m.All)
			}
		}
		for _, m := range textMembers(t, []byte("{"+add+"}")) {
			want = append(want, m.All)
		}
		var got []string
		for _, m := range textMembers(t, after) {
			got = append(got, m.All)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("_meta (-want +got):\n%s", diff)
		}
		if len(got) == 0 && after != nil && !bytes.Equal(out, object) {
			t.Fatalf("an empty _meta was left in %q", out)
		}
		if again := mcp.RewriteMeta(out, []byte(add)); !bytes.Equal(again, out) {
			t.Fatalf("a second rewrite makes %q of %q", again, out)
		}
		for _, key := range []string{"a", "_meta", "name"} {
			one, two := mcp.Forwarded(object, key, []byte("7")), mcp.RewriteMeta(mcp.SetMember(object, key, []byte("7")), nil)
			if !bytes.Equal(one, two) {
				t.Fatalf("%q in one step, %q in two", one, two)
			}
		}
		if !bytes.Equal(object, original) {
			t.Fatal("RewriteMeta changed its input")
		}
	})
}

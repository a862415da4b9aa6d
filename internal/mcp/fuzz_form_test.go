package mcp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
)

// FuzzCanonical checks that all spellings of a value have one form, which loses nothing
// of its meaning.
func FuzzCanonical(f *testing.F) {
	for _, seed := range append(slices.Clone(objects),
		`{"b":1,"a":{"d":[{"z":0,"y":1}],"c":{}},"\ufb33":0,"😀":1}`,
		`["\u2028\/\u0000\u001f\u007f",1.0,-0,1E+2]`,
		`["\ud800\ud83d\ude00\udc00"]`,
	) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		loose := mcp.Limits{LoneSurrogates: true}
		if mcp.Validate(data, loose) != nil {
			return
		}
		original := bytes.Clone(data)
		form := mcp.AppendCanonical(nil, data)
		if !bytes.Equal(data, original) {
			t.Fatal("AppendCanonical changed its input")
		}
		if err := mcp.Validate(form, loose); err != nil {
			t.Fatalf("form %q: %v", form, err)
		}
		if again := mcp.AppendCanonical(nil, form); !bytes.Equal(again, form) {
			t.Fatalf("the form of %q is %q", form, again)
		}
		if diff := cmp.Diff(decode(t, data), decode(t, form)); diff != "" {
			t.Fatalf("meaning (-value +form):\n%s", diff)
		}
		wantSortedKeys(t, form)
		if mcp.Validate(data, mcp.Limits{}) != nil {
			return // jsontext has no half pairs
		}
		spelled := jsontext.Value(bytes.Clone(data))
		if err := spelled.Format(
			jsontext.PreserveRawStrings(false), jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true),
			jsontext.ReorderRawObjects(true), jsontext.Multiline(true), jsontext.SpaceAfterColon(true),
		); err != nil {
			t.Fatal(err)
		}
		if other := mcp.AppendCanonical(nil, spelled); !bytes.Equal(other, form) || mcp.Hash(spelled) != mcp.Hash(data) {
			t.Fatalf("%q has the form %q, spelled as %q it has %q", data, form, spelled, other)
		}
	})
}

func decode(t *testing.T, data []byte) (value any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func wantSortedKeys(t *testing.T, value []byte) {
	t.Helper()
	keys := []string{}
	for _, m := range textMembers(t, value) {
		keys = append(keys, m.Key)
		wantSortedKeys(t, []byte(m.Value))
	}
	if !slices.IsSorted(keys) {
		t.Fatalf("keys %q are not sorted", keys)
	}
	for e := range mcp.Elements(value) {
		wantSortedKeys(t, e.Of(value))
	}
}

// FuzzHeaderValue sends a text through a header of a real request and back.
func FuzzHeaderValue(f *testing.F) {
	for _, seed := range []string{
		"us-west1", "Hello, 世界", " padded ", "line1\nline2", "=?base64?literal?=", "=?base64?=", "", "\x00\xff", "a\tb", "=?base64?YQ==?=",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value := mcp.EncodeHeaderValue(text)
		if back, err := mcp.DecodeHeaderValue(value); back != text || err != nil {
			t.Fatalf("%q goes as %q and comes as %q, %v", text, value, back, err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/mcp", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(mcp.HeaderName, value)
		var wire bytes.Buffer
		if err := req.Write(&wire); err != nil {
			t.Fatalf("%q is not a header value: %v", value, err)
		}
		got, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil {
			t.Fatal(err)
		}
		if fault := mcp.CheckNamed(got.Header, mcp.HeaderName, text); fault != nil {
			t.Fatalf("%q goes as %q: %v", text, value, fault)
		}
		// The decoded text encodes to a value that decodes to the same text.
		if text, err := mcp.DecodeHeaderValue(text); err == nil {
			if again, err := mcp.DecodeHeaderValue(mcp.EncodeHeaderValue(text)); again != text || err != nil {
				t.Fatalf("%q became %q, %v", text, again, err)
			}
		}
	})
}

// FuzzParamHeaders compares the annotations found with a walk over what
// encoding/json decodes.
func FuzzParamHeaders(f *testing.F) {
	for _, seed := range []string{
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"integer","x-mcp-header":"C"}}}}}`,
		`{"properties":{"x-mcp-header":{"type":"boolean","x-mcp-h\u0065ader":"X"},"properties":{"properties":{}}}}`,
		`{"$defs":{"x-mcp-header":{"items":{"x-mcp-header":"A"}}}}`,
		`{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`,
		`{"properties":{"a":{"default":{"x-mcp-header":1},"type":"number","x-mcp-header":"A"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if mcp.Validate(data, mcp.Limits{}) != nil {
			return
		}
		got, err := mcp.ParamHeaders(data)
		want, ok := annotationsOf(decode(t, data), nil, "schema")
		names := map[string]bool{}
		for _, name := range want {
			ok = ok && !names[strings.ToLower(name)]
			names[strings.ToLower(name)] = true
		}
		if ok != (err == nil) {
			t.Fatalf("ParamHeaders = %v, %v, want them accepted: %t", got, err, ok)
		}
		if err != nil {
			return
		}
		found := map[string]string{}
		for _, h := range got {
			found[strings.Join(h.Path, "\x00")] = h.Name
		}
		if len(found) != len(got) || !reflect.DeepEqual(found, want) && len(want)+len(found) > 0 {
			t.Fatalf("ParamHeaders = %v, want %v", got, want)
		}
	})
}

// annotationsOf returns header names by path; ok is false where one breaks the
// specification.
func annotationsOf(value any, path []string, as string) (found map[string]string, ok bool) {
	found, ok = map[string]string{}, true
	add := func(value any, path []string, as string) {
		more, good := annotationsOf(value, path, as)
		ok = ok && good
		maps.Copy(found, more)
	}
	if list, isList := value.([]any); isList && as != "data" {
		for _, e := range list {
			add(e, path, "other")
		}
	}
	object, _ := value.(map[string]any)
	for key, inner := range object {
		switch {
		case as == "data":
		case as == "names":
			add(inner, path, "other")
		case as == "properties":
			add(inner, append(slices.Clone(path), key), "schema")
		case key == "properties" && as == "schema":
			add(inner, path, "properties")
		case slices.Contains([]string{"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}, key):
			add(inner, path, "names")
		case slices.Contains([]string{"const", "enum", "default", "examples", "dependentRequired"}, key):
		case key == "x-mcp-header":
			name, _ := inner.(string)
			kind, _ := object["type"].(string)
			const tchar = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			if as != "schema" || len(path) == 0 || name == "" || strings.Trim(name, tchar) != "" ||
				!slices.Contains([]string{"string", "integer", "boolean"}, kind) {
				ok = false
			}
			found[strings.Join(path, "\x00")] = name
			add(inner, path, "other")
		default:
			add(inner, path, "other")
		}
	}
	return found, ok
}

// FuzzListing checks that a listing survives storage unchanged.
func FuzzListing(f *testing.F) {
	f.Add([]byte(`{"name":"t","x":9007199254740993}`), []byte("{ \"uri\" :\n\"file:///\\u0061\" }"), []byte(`{"tools":{}}`), "text", int64(1500), int64(1_785_000_000_123))
	f.Add([]byte(`{"name":"\ud800"}`), []byte(`{"uri":"a","name":{"uri":"b"}}`), []byte(`null`), "\x00\"世", int64(0), int64(-1))
	f.Fuzz(func(t *testing.T, tool, resource, capabilities []byte, text string, ttl, at int64) {
		// Nesting and numbers that a fetched listing cannot have.
		limits := mcp.Limits{LoneSurrogates: true, Depth: mcp.DefaultDepth - 3}
		const most = 1 << 40
		if !utf8.ValidString(text) || ttl < 0 || ttl > most || at < -most || at > most {
			return
		}
		for _, raw := range [][]byte{tool, resource, capabilities} {
			if mcp.Validate(raw, limits) != nil || len(bytes.Trim(raw, " \t\r\n")) != len(raw) {
				return
			}
		}
		one, err := mcp.ParseItem(mcp.Tool, tool)
		if err != nil {
			return
		}
		two, err := mcp.ParseItem(mcp.Resource, resource)
		if err != nil {
			return
		}
		want := &mcp.Listing{
			Era: mcp.Modern, Version: mcp.Version(text), Instructions: text, Capabilities: capabilities,
			Items:     map[mcp.Kind][]mcp.Item{mcp.Tool: {one, one}, mcp.Resource: {two}},
			TTL:       map[mcp.Kind]time.Duration{},
			FetchedAt: time.UnixMilli(at),
		}
		if ttl > 0 {
			want.TTL[mcp.Resource] = time.Duration(ttl) * time.Millisecond
		}
		data := want.Encode()
		got, err := mcp.DecodeListing(data)
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("listing (-want +got):\n%s", diff)
		}
		if again := got.Encode(); !bytes.Equal(again, data) {
			t.Fatalf("%q became %q", data, again)
		}
	})
}

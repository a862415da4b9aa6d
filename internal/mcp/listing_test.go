package mcp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestListingSurvivesItsEncoding(t *testing.T) {
	item := func(kind mcp.Kind, raw string) mcp.Item {
		it, err := mcp.ParseItem(kind, []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return it
	}
	tool := item(mcp.Tool, "{ \"future\":[9007199254740993],\n\"name\":\"\\u0061/b\", \"inputSchema\":{\"properties\":{\"r\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"}}}}")
	if diff := cmp.Diff("a/b", tool.Key); diff != "" {
		t.Fatal(diff)
	}
	for name, want := range map[string]*mcp.Listing{
		"empty": {Items: map[mcp.Kind][]mcp.Item{}, TTL: map[mcp.Kind]time.Duration{}},
		"full": {
			Era:          mcp.Modern,
			Version:      mcp.V20260728,
			ServerInfo:   []byte(`{"name":"s","version":"1","x":1.0}`),
			Capabilities: []byte(`{"tools":{ "listChanged":true },"y":null}`),
			Instructions: "line\n\"two\" 世",
			Items: map[mcp.Kind][]mcp.Item{
				mcp.Tool:     {tool, item(mcp.Tool, `{"name":"two","description":"half \ud83d"}`)},
				mcp.Prompt:   {item(mcp.Prompt, `{"name":"p"}`)},
				mcp.Resource: {item(mcp.Resource, `{"uri":"file:///a","name":"x"}`)},
				mcp.Template: {item(mcp.Template, `{"uriTemplate":"file:///{p}"}`)},
			},
			TTL:       map[mcp.Kind]time.Duration{mcp.Tool: time.Minute, mcp.Template: 1500 * time.Millisecond},
			FetchedAt: time.UnixMilli(1_785_000_000_123),
		},
		"in two sets": {
			Era: mcp.Legacy, Version: mcp.V20251125, Capabilities: []byte(`{"tools":{}}`), FetchedAt: time.UnixMilli(5),
			Items: map[mcp.Kind][]mcp.Item{mcp.Tool: {tool}}, TTL: map[mcp.Kind]time.Duration{},
			WithoutCapabilities: &mcp.Listing{
				Era: mcp.Legacy, Version: mcp.V20250618, Instructions: "other", FetchedAt: time.UnixMilli(6),
				Items: map[mcp.Kind][]mcp.Item{
					mcp.Tool: {item(mcp.Tool, `{"name":"deep","x":`+strings.Repeat("[", mcp.DefaultDepth-4)+strings.Repeat("]", mcp.DefaultDepth-4)+`}`)},
				},
				TTL: map[mcp.Kind]time.Duration{},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := want.Encode()
			got, err := mcp.DecodeListing(data)
			if err != nil {
				t.Fatalf("DecodeListing(%s): %v", data, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("listing (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(string(data), string(got.Encode())); diff != "" {
				t.Errorf("encoded again (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeListingRefuses(t *testing.T) {
	for in, want := range map[string]string{
		``:                                   "unexpected end at byte 0",
		`{"era":1,"era":2}`:                  "key given twice at byte 10",
		`{"tool":{"items":[1]}}`:             "not an object",
		`{"tool":{"items":[{"title":"x"}]}}`: "without a name",
		`{"resource":{"items":[{"uri":7}]}}`: "without a uri",
		`{"plain":{"tool":{"items":[1]}}}`:   "not an object",
	} {
		if l, err := mcp.DecodeListing([]byte(in)); l != nil || errorText(err) != want {
			t.Errorf("DecodeListing(%s) = %v, %v, want %s", in, l, err, want)
		}
	}
}

func TestParseItem(t *testing.T) {
	for _, tc := range []struct {
		kind     mcp.Kind
		in, key  string
		params   int
		sentence string
	}{
		{mcp.Tool, `{"name":"a"}`, "a", 0, ""},
		{mcp.Tool, `{"inputSchema":{"properties":{"a":{"type":"integer","x-mcp-header":"A"}}},"name":"a"}`, "a", 1, ""},
		{mcp.Tool, `{"name":"a","inputSchema":null}`, "a", 0, ""},
		{mcp.Tool, `{"name":"a","outputSchema":{"x-mcp-header":"A"}}`, "a", 0, ""},
		{mcp.Tool, `{"name":"a","inputSchema":{"x-mcp-header":"A"}}`, "", 0, "x-mcp-header on something that is not a statically reachable property"},
		{mcp.Prompt, `{"name":"a","inputSchema":{"x-mcp-header":"A"}}`, "a", 0, ""},
		{mcp.Resource, `{"name":"a","uri":"b"}`, "b", 0, ""},
		{mcp.Template, `{"uri":"a","uriTemplate":"b{c}"}`, "b{c}", 0, ""},
		{mcp.Tool, `{"name":""}`, "", 0, "without a name"},
		{mcp.Tool, `{"name":null}`, "", 0, "without a name"},
		{mcp.Template, `{"uri":"a"}`, "", 0, "without a uriTemplate"},
		{mcp.Tool, `["name"]`, "", 0, "not an object"},
	} {
		got, err := mcp.ParseItem(tc.kind, []byte(tc.in))
		if got.Key != tc.key || len(got.Params) != tc.params || errorText(err) != tc.sentence {
			t.Errorf("ParseItem(%v, %s) = %q with %v, %v", tc.kind, tc.in, got.Key, got.Params, err)
		}
		if err == nil && string(got.Raw) != tc.in {
			t.Errorf("ParseItem keeps %s of %s", got.Raw, tc.in)
		}
	}
}

func TestListingAnswersQuestions(t *testing.T) {
	l := &mcp.Listing{
		Capabilities: []byte(`{"tools":{"listChanged":true,"x":false},"prompts":{},"logging":null}`),
		Items:        map[mcp.Kind][]mcp.Item{mcp.Tool: {{Key: "a"}, {Key: "b", Raw: []byte(`{}`)}}},
	}
	for path, want := range map[string]bool{
		"tools": true, "tools.listChanged": true, "tools.x": false, "prompts": true, "prompts.listChanged": false,
		"logging": false, "resources": false,
	} {
		if got := l.Declares(strings.Split(path, ".")...); got != want {
			t.Errorf("Declares(%s) = %t", path, got)
		}
	}
	if got := l.Find(mcp.Tool, "b"); got != &l.Items[mcp.Tool][1] {
		t.Errorf("Find(b) = %v", got)
	}
	if l.Find(mcp.Tool, "c") != nil || l.Find(mcp.Prompt, "a") != nil {
		t.Error("Find found what is not there")
	}
	var none *mcp.Listing
	if none.Declares("tools") || none.Find(mcp.Tool, "a") != nil || (&mcp.Listing{}).Declares("tools") {
		t.Error("nothing declares something")
	}
}

func TestListingsOfferTheSame(t *testing.T) {
	listing := func(capabilities, instructions string, tools ...string) *mcp.Listing {
		l := &mcp.Listing{Version: mcp.V20251125, Instructions: instructions, Items: map[mcp.Kind][]mcp.Item{}}
		if capabilities != "" {
			l.Capabilities = []byte(capabilities)
		}
		for _, raw := range tools {
			item, err := mcp.ParseItem(mcp.Tool, []byte(raw))
			if err != nil {
				t.Fatal(err)
			}
			l.Items[mcp.Tool] = append(l.Items[mcp.Tool], item)
		}
		return l
	}
	const a, b = `{"name":"a","x":1}`, `{"name":"b"}`
	one := listing(`{"tools":{},"logging":{}}`, "be kind", a, b)
	for name, tt := range map[string]struct {
		other *mcp.Listing
		want  bool
	}{
		"the same":                 {listing(`{"tools":{},"logging":{}}`, "be kind", a, b), true},
		"in another order":         {listing(`{"logging":{},"tools":{}}`, "be kind", b, `{ "x":1, "name":"a" }`), true},
		"one less":                 {listing(`{"tools":{},"logging":{}}`, "be kind", a), false},
		"one more":                 {listing(`{"tools":{},"logging":{}}`, "be kind", a, b, `{"name":"c"}`), false},
		"another":                  {listing(`{"tools":{},"logging":{}}`, "be kind", a, `{"name":"c"}`), false},
		"another definition":       {listing(`{"tools":{},"logging":{}}`, "be kind", a, `{"name":"b","x":1.0}`), false},
		"other capabilities":       {listing(`{"tools":{}}`, "be kind", a, b), false},
		"no capabilities":          {listing("", "be kind", a, b), false},
		"other instructions":       {listing(`{"tools":{},"logging":{}}`, "be quick", a, b), false},
		"prompts instead of tools": {&mcp.Listing{Version: mcp.V20251125, Instructions: one.Instructions, Capabilities: one.Capabilities, Items: map[mcp.Kind][]mcp.Item{mcp.Prompt: one.Items[mcp.Tool]}}, false},
		"another revision":         {&mcp.Listing{Version: mcp.V20250618, Instructions: one.Instructions, Capabilities: one.Capabilities, Items: one.Items}, false},
	} {
		if got, back := one.Offers(tt.other), tt.other.Offers(one); got != tt.want || back != tt.want {
			t.Errorf("%s: %v and %v, want %v", name, got, back, tt.want)
		}
	}
}

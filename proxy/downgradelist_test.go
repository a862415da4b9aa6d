package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// schemaFacts say what the schemas of the legacy revisions have as what: kind,
// path, type and the revision it came in. A type with ! is required.
const schemaFacts = `
tool name string! 2024-11-05
tool description string 2024-11-05
tool inputSchema object! 2024-11-05
tool inputSchema.type =object! 2024-11-05
tool inputSchema.properties object 2024-11-05
tool inputSchema.properties.* object 2024-11-05
tool inputSchema.required array 2024-11-05
tool inputSchema.required[] string 2024-11-05
tool inputSchema.$schema string 2024-11-05
tool annotations object 2025-03-26
tool annotations.title string 2025-03-26
tool annotations.readOnlyHint boolean 2025-03-26
tool annotations.destructiveHint boolean 2025-03-26
tool annotations.idempotentHint boolean 2025-03-26
tool annotations.openWorldHint boolean 2025-03-26
tool title string 2025-06-18
tool _meta object 2025-06-18
tool outputSchema object 2025-06-18
tool outputSchema.type =object! 2025-06-18
tool outputSchema.properties object 2025-06-18
tool outputSchema.properties.* object 2025-06-18
tool outputSchema.required array 2025-06-18
tool outputSchema.required[] string 2025-06-18
tool outputSchema.$schema string 2025-06-18
tool execution object 2025-11-25
tool execution.taskSupport =forbidden|optional|required 2025-11-25
prompt name string! 2024-11-05
prompt description string 2024-11-05
prompt arguments array 2024-11-05
prompt arguments[] object 2024-11-05
prompt arguments[].name string! 2024-11-05
prompt arguments[].description string 2024-11-05
prompt arguments[].required boolean 2024-11-05
prompt arguments[].title string 2025-06-18
prompt title string 2025-06-18
prompt _meta object 2025-06-18
resource uri string! 2024-11-05
resource name string! 2024-11-05
resource description string 2024-11-05
resource mimeType string 2024-11-05
resource size integer 2024-11-05
template uriTemplate string! 2024-11-05
template name string! 2024-11-05
template description string 2024-11-05
template mimeType string 2024-11-05
`

// sharedFacts are of several kinds.
const sharedFacts = `
annotations object 2024-11-05
annotations.audience array 2024-11-05
annotations.audience[] =user|assistant 2024-11-05
annotations.priority share 2024-11-05
annotations.lastModified string 2025-06-18
title string 2025-06-18
_meta object 2025-06-18
`

const iconFacts = `
icons array 2025-11-25
icons[] object 2025-11-25
icons[].src string! 2025-11-25
icons[].mimeType string 2025-11-25
icons[].sizes array 2025-11-25
icons[].sizes[] string 2025-11-25
icons[].theme =light|dark 2025-11-25
`

type schemaFact struct {
	kind, path, what string
	since            mcp.Version
}

var facts = func() (all []schemaFact) {
	text := schemaFacts
	for _, kind := range []string{"resource", "template"} {
		text += strings.ReplaceAll(sharedFacts, "\n", "\n"+kind+" ") + "\n"
	}
	for _, kind := range mcp.Capabilities {
		text += strings.ReplaceAll(iconFacts, "\n", "\n"+kind.String()+" ") + "\n"
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 4 {
			all = append(all, schemaFact{f[0], f[1], f[2], mcp.Version(f[3])})
		}
	}
	return all
}()

// breaches returns how an item breaks the schema of a legacy revision, and what
// it has of later ones.
func breaches(t testing.TB, kind mcp.Capability, version mcp.Version, item []byte) (found []string) {
	t.Helper()
	var whole any
	d := json.NewDecoder(bytes.NewReader(item))
	d.UseNumber()
	if err := d.Decode(&whole); err != nil {
		t.Fatalf("%s: %v", item, err)
	}
	for _, f := range facts {
		if f.kind != kind.String() {
			continue
		}
		found = append(found, f.check(version, whole, f.path)...)
	}
	return found
}

// check follows the rest of the path into a value.
func (f schemaFact) check(version mcp.Version, value any, path string) (found []string) {
	if path == "" {
		if version < f.since && f.path != "_meta" && !(f.kind == mcp.Tool.String() && strings.HasPrefix(f.path, "annotations")) {
			return []string{f.path + " is of a later revision"}
		}
		if !f.is(value) {
			return []string{fmt.Sprintf("%s is %v", f.path, value)}
		}
		return nil
	}
	if rest, ok := strings.CutPrefix(path, "[]"); ok {
		elements, _ := value.([]any)
		for _, e := range elements {
			found = append(found, f.check(version, e, strings.TrimPrefix(rest, "."))...)
		}
		return found
	}
	members, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	step := path[:strings.IndexAny(path+".", ".[")]
	rest := strings.TrimPrefix(path[len(step):], ".")
	if step == "*" {
		for _, v := range members {
			found = append(found, f.check(version, v, rest)...)
		}
		return found
	}
	member, ok := members[step]
	switch {
	case ok:
		return f.check(version, member, rest)
	case rest == "" && strings.HasSuffix(f.what, "!") && version >= f.since:
		return []string{f.path + " is missing"}
	}
	return nil
}

func (f schemaFact) is(value any) bool {
	what := strings.TrimSuffix(f.what, "!")
	switch v := value.(type) {
	case string:
		words, closed := strings.CutPrefix(what, "=")
		return what == "string" || closed && slices.Contains(strings.Split(words, "|"), v)
	case bool:
		return what == "boolean"
	case json.Number:
		n, err := v.Float64()
		return what == "integer" && !strings.ContainsAny(v.String(), ".eE") || what == "share" && err == nil && n >= 0 && n <= 1
	case map[string]any:
		return what == "object"
	case []any:
		return what == "array"
	default:
		return false
	}
}

// itemMaker makes items at random, with members of right, wrong and no
// revisions and types.
type itemMaker struct{ *rand.Rand }

func (m itemMaker) pick(from ...string) string { return from[m.IntN(len(from))] }

// value is any value, mostly shallow.
func (m itemMaker) value(depth int) string {
	if depth == 0 || m.IntN(3) > 0 {
		return m.pick(`"s"`, `"object"`, `"user"`, `"light"`, `"optional"`, `"\u0061"`, `0`, `0.5`, `1e0`, `-3`, `9007199254740993`, `true`, `false`, `null`, `{}`, `[]`)
	}
	if m.IntN(2) == 0 {
		var elements []string
		for range m.IntN(4) {
			elements = append(elements, m.value(depth-1))
		}
		return "[" + strings.Join(elements, m.pick(",", " , ")) + "]"
	}
	return m.object(depth-1, "type", "properties", "required", "$schema", "title", "readOnlyHint", "openWorldHint", "audience", "priority",
		"lastModified", "src", "mimeType", "sizes", "theme", "name", "description", "taskSupport", "x")
}

// object has some of the members.
func (m itemMaker) object(depth int, names ...string) string {
	var members []string
	for _, i := range m.Perm(len(names))[:m.IntN(min(len(names), 8)+1)] {
		members = append(members, m.key(names[i])+":"+m.pick("", " ")+m.value(depth))
	}
	return "{" + strings.Join(members, m.pick(",", ",\n ")) + "}"
}

// key is a key in one of its spellings.
func (m itemMaker) key(name string) string {
	if m.IntN(20) == 0 {
		return fmt.Sprintf(`"\u%04x%s"`, name[0], name[1:])
	}
	return `"` + name + `"`
}

func (m itemMaker) item(kind mcp.Capability) []byte {
	names := []string{
		"title", "description", "inputSchema", "outputSchema", "annotations", "execution", "icons", "_meta", "arguments", "mimeType", "size", "x-vendor", "constructor",
	}
	if kind != mcp.Tool && kind != mcp.Prompt {
		names = append(names, "name")
	}
	rest := m.object(3, names...)
	item := "{" + m.key(kind.KeyMember()) + `:"k:1"`
	if rest != "{}" {
		item += ","
	}
	return raw(item + rest[1:])
}

// Whatever a server lists, a client that holds it against its revision's schema
// finds nothing wrong with it, and what no revision defines is still there.
func TestDowngradedItemsConform(t *testing.T) {
	m := itemMaker{rand.New(rand.NewPCG(11, 25))}
	for range 300 {
		for _, kind := range mcp.Capabilities {
			item := m.item(kind)
			if err := mcp.Validate(item, mcp.Limits{}); err != nil {
				t.Fatalf("%v: %s", err, item)
			}
			for _, version := range versions {
				out := downgradedItem(version, kind, item)
				checkDowngrade(t, downgradeOf(kind.String()), version, item, out)
				for _, name := range []string{kind.KeyMember(), "x-vendor", "constructor"} {
					if was, is := mcp.Lookup(item, name), mcp.Lookup(out, name); !bytes.Equal(was, is) {
						t.Errorf("%s: %s was %s, is %s", version, name, was, is)
					}
				}
				if version.Era() == mcp.Modern {
					if kind == mcp.Tool && mcp.Lookup(out, "execution", "taskSupport") != nil {
						t.Errorf("%s: %s", version, out)
					}
					continue
				}
				for _, breach := range breaches(t, kind, version, out) {
					t.Errorf("%s: %s\nin  %s\nout %s", version, breach, item, out)
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}

// Which member of which kind a client of which revision gets.
func TestDowngradedMembers(t *testing.T) {
	const everyone = mcp.Version("")
	tests := []struct {
		kind   mcp.Capability
		member string // and its value
		since  mcp.Version
		want   string // instead of the value, where it is mended for legacy revisions
	}{
		{mcp.Tool, `"title":"T"`, mcp.V20250618, ""},
		{mcp.Tool, `"description":"d"`, everyone, ""},
		{mcp.Tool, `"annotations":{"readOnlyHint":true}`, everyone, ""},
		{mcp.Tool, `"annotations":{"title":"T"}`, everyone, ""},
		{mcp.Tool, `"annotations":{"x":[1]}`, everyone, ""},
		{mcp.Tool, `"annotations":{"title":1,"x":2}`, everyone, `{"x":2}`},
		{mcp.Tool, `"annotations":[]`, mcp.V20260728, ""},
		{mcp.Tool, `"icons":[{"src":"x:y"}]`, mcp.V20251125, ""},
		{mcp.Tool, `"icons":"x:y"`, mcp.V20260728, ""},
		{mcp.Tool, `"outputSchema":{"type":"object"}`, mcp.V20250618, ""},
		{mcp.Tool, `"outputSchema":{"type":"array"}`, mcp.V20260728, ""},
		{mcp.Tool, `"outputSchema":{"type":["object"]}`, mcp.V20260728, ""},
		{mcp.Tool, `"outputSchema":{"$ref":"#/$defs/a"}`, mcp.V20260728, ""},
		{mcp.Tool, `"outputSchema":true`, mcp.V20260728, ""},
		{mcp.Tool, `"outputSchema":null`, mcp.V20260728, ""},
		{mcp.Tool, `"outputSchema":{"type":"object","properties":{"r":true}}`, mcp.V20250618, `{"type":"object","properties":{"r":{}}}`},
		{mcp.Tool, `"execution":{"x":1}`, mcp.V20251125, ""},
		{mcp.Tool, `"_meta":{"ui":{}}`, everyone, ""},
		{mcp.Tool, `"x-vendor":null`, everyone, ""},
		{mcp.Prompt, `"title":"T"`, mcp.V20250618, ""},
		{mcp.Prompt, `"icons":[]`, mcp.V20251125, ""},
		{mcp.Prompt, `"arguments":[{"name":"a","required":true}]`, everyone, ""},
		{mcp.Prompt, `"arguments":[{"name":"a","required":1},{}]`, everyone, `[{"name":"a"}]`},
		{mcp.Prompt, `"arguments":{}`, mcp.V20260728, ""},
		{mcp.Prompt, `"_meta":{"a":1}`, everyone, ""},
		{mcp.Resource, `"title":"T"`, mcp.V20250618, ""},
		{mcp.Resource, `"icons":[]`, mcp.V20251125, ""},
		{mcp.Resource, `"size":9007199254740993`, everyone, ""},
		{mcp.Resource, `"size":"1"`, mcp.V20260728, ""},
		{mcp.Resource, `"mimeType":"a/b"`, everyone, ""},
		{mcp.Resource, `"annotations":{"priority":1}`, everyone, ""},
		{mcp.Resource, `"annotations":{"priority":1.01}`, everyone, `{}`},
		{mcp.Resource, `"annotations":{"audience":["user","x"]}`, everyone, `{"audience":["user"]}`},
		{mcp.Template, `"title":"T"`, mcp.V20250618, ""},
		{mcp.Template, `"icons":[]`, mcp.V20251125, ""},
		{mcp.Template, `"mimeType":7`, mcp.V20260728, ""},
		{mcp.Template, `"size":"any"`, everyone, ""}, // of resources alone
	}
	base := map[mcp.Capability]string{
		mcp.Tool: `{"name":"n","inputSchema":{"type":"object"}`, mcp.Prompt: `{"name":"n"`,
		mcp.Resource: `{"uri":"x:y","name":"n"`, mcp.Template: `{"uriTemplate":"x:{y}","name":"n"`,
	}
	for _, tt := range tests {
		for _, version := range versions {
			in := base[tt.kind] + "," + tt.member + "}"
			want := base[tt.kind] + "}"
			if version >= tt.since {
				want = in
				if name, _, _ := strings.Cut(tt.member, ":"); tt.want != "" && version.Era() == mcp.Legacy {
					want = base[tt.kind] + "," + name + ":" + tt.want + "}"
				}
			}
			if version == mcp.V20250326 && tt.kind == mcp.Tool && tt.member == `"title":"T"` {
				want = `{"annotations":{"title":"T"},` + base[tt.kind][1:] + "}"
			}
			if got := downgradedItem(version, tt.kind, raw(in)); string(got) != want {
				t.Errorf("%s: %s\ngot  %s\nwant %s", version, in, got, want)
			}
		}
	}
}

// execution.taskSupport is for clients of 2025-11-25 alone; a tool that needs
// tasks stays in the list of everybody.
func TestTaskSupport(t *testing.T) {
	for in, want := range map[string]string{
		`{"name":"n","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`:       `{"name":"n","inputSchema":{"type":"object"}}`,
		`{"execution":{"taskSupport":"required","x":1},"name":"n","inputSchema":{"type":"object"}}`: `{"execution":{"x":1},"name":"n","inputSchema":{"type":"object"}}`,
	} {
		if got := downgradedItem(mcp.V20251125, mcp.Tool, raw(in)); string(got) != in {
			t.Errorf("2025-11-25: %s", got)
		}
		if got := downgradedItem(mcp.V20260728, mcp.Tool, raw(in)); string(got) != want {
			t.Errorf("2026-07-28: %s, want %s", got, want)
		}
		for _, version := range versions[:rev20251125] {
			if got := downgradedItem(version, mcp.Tool, raw(in)); string(got) != `{"name":"n","inputSchema":{"type":"object"}}` {
				t.Errorf("%s: %s", version, got)
			}
		}
	}
}

func TestRevisionOf(t *testing.T) {
	for version, want := range map[mcp.Version]revision{
		"": rev20241105, "2024-10-07": rev20241105, mcp.V20241105: rev20241105, mcp.V20250326: rev20250326, mcp.V20250618: rev20250618,
		"2025-11-24": rev20250618, mcp.V20251125: rev20251125, "2026-07-27": rev20251125, mcp.V20260728: revModern, "2030-01-01": revModern,
	} {
		if got := revisionOf(version); got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
}

// openAt initializes a session of a revision.
func (r *rig) openAt(version mcp.Version) string {
	r.t.Helper()
	w := r.post(strings.Replace(initBody, "2025-11-25", string(version), 1))
	if got, _ := mcp.LookupString(raw(w.text()), "result", "protocolVersion"); got != string(version) {
		r.t.Fatalf("asked for %s, got %s", version, w.text())
	}
	return w.field("Mcp-Session-Id")
}

// Clients of every revision get their own lists of one catalog, whole, filtered
// or page by page, however many ask at once.
func TestListsByRevision(t *testing.T) {
	const odd = `tool {"name":"odd","title":"Odd","outputSchema":{"type":"array"},"inputSchema":{"type":"object","properties":{"a":true}},"execution":{"taskSupport":"required"}}`
	want := map[mcp.Version]string{
		mcp.V20241105: `{"name":"s__odd","inputSchema":{"type":"object","properties":{"a":{}}}}`,
		mcp.V20250326: `{"annotations":{"title":"Odd"},"name":"s__odd","inputSchema":{"type":"object","properties":{"a":{}}}}`,
		mcp.V20250618: `{"name":"s__odd","title":"Odd","inputSchema":{"type":"object","properties":{"a":{}}}}`,
		mcp.V20251125: `{"name":"s__odd","title":"Odd","inputSchema":{"type":"object","properties":{"a":{}}},"execution":{"taskSupport":"required"}}`,
		mcp.V20260728: `{"name":"s__odd","title":"Odd","outputSchema":{"type":"array"},"inputSchema":{"type":"object","properties":{"a":true}}}`,
	}
	shown := strings.ReplaceAll(strings.TrimPrefix(tool("a"), "tool "), `"a"`, `"s__a"`)
	setups := map[string]func(*Options, *Config){
		"whole": func(*Options, *Config) {}, "filtered": hide("hidden"), "paged": small(2),
	}
	for name, setup := range setups {
		b := newScript(t, "s", mcp.Legacy)
		b.offer(t, mcp.Legacy, legacyTasks, tool("a"), odd, tool("z"), tool("hidden"))
		r := newRig(t, mounted(b), setup)
		var wg sync.WaitGroup
		for range 4 {
			for _, version := range versions {
				ask := func() string {
					session := r.openAt(version)
					return r.legacy(session, "1", "tools/list", "").text()
				}
				if version.Era() == mcp.Modern {
					ask = func() string { return r.modern("1", "tools/list", "").text() }
				}
				wg.Go(func() {
					body := raw(ask())
					list := mcp.Lookup(body, "result", "tools")
					var got string
					for e := range mcp.Elements(list) {
						item := string(e.Of(list))
						switch name, _ := mcp.LookupString(raw(item), "name"); name {
						case "s__odd":
							got = item
						case "s__a":
							if item != shown {
								t.Errorf("%s, %s: a is %s", name, version, item)
							}
						}
					}
					if name == "paged" && got == "" {
						return // behind the first page
					}
					if got != want[version] {
						t.Errorf("%s, %s:\ngot  %s\nwant %s", name, version, got, want[version])
					}
				})
			}
		}
		wg.Wait()
	}
}

// Revisions whose list is the same share its bytes, and items that need nothing
// are not copied.
func TestListMemory(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("a"), `prompt {"name":"p","title":"P"}`)
	r := newRig(t, mounted(b))
	for _, version := range versions[:revModern] {
		session := r.openAt(version)
		r.legacy(session, "1", "tools/list", "")
		r.legacy(session, "2", "prompts/list", "")
	}
	r.modern("1", "tools/list", "")
	catalog := r.snapshot.Load().catalog
	bodies := map[mcp.Capability]map[*byte]bool{mcp.Tool: {}, mcp.Prompt: {}}
	for key, body := range catalog.pages {
		if key.era == mcp.Legacy {
			bodies[key.kind][&body[0]] = true
		}
	}
	if len(bodies[mcp.Tool]) != 1 || len(bodies[mcp.Prompt]) != 2 {
		t.Errorf("%d bodies of one list of tools, %d of two lists of prompts", len(bodies[mcp.Tool]), len(bodies[mcp.Prompt]))
	}
	route := catalog.lists[mcp.Tool].entries[0]
	for rev := range revisions {
		if item := route.listed(rev); &item[0] != &route.raw[0] {
			t.Errorf("%s: a copy of an item that needs nothing", revisionVersions[rev])
		}
	}
}

func BenchmarkDowngradedItem(b *testing.B) {
	item := raw(`{"name":"s__search","title":"Search","description":"` + strings.Repeat("Finds things. ", 40) + `","inputSchema":{"type":"object","properties":{"q":{"type":"string","description":"what"},"n":{"type":"integer"}},"required":["q"]},"annotations":{"readOnlyHint":true}}`)
	for _, version := range versions {
		b.Run(string(version), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				downgradedItem(version, mcp.Tool, item)
			}
		})
	}
}

// A filtered list is rendered for each caller; its items are not.
func BenchmarkFilteredList(b *testing.B) {
	items := make([]string, 0, 200)
	for i := range 200 {
		items = append(items, fmt.Sprintf(`tool {"name":"t%d","title":"T","icons":[{"src":"x:y"}],"inputSchema":{"type":"object"}}`, i))
	}
	r := newRig(b, mounted(newScript(b, "s", mcp.Legacy, items...)), hide("t0"))
	for _, version := range versions {
		x := &Exchange{Identity: person("alice"), Era: version.Era(), Version: version, Message: listMessage(b)}
		b.Run(string(version), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.list(b.Context(), x, mcp.Tool)
			}
		})
	}
}

func listMessage(t testing.TB) mcp.Message {
	t.Helper()
	msg, err := mcp.Parse(raw(request("1", "tools/list", "{}")), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

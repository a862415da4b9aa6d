package revision

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	for _, kind := range mcp.Kinds {
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
func breaches(t testing.TB, kind mcp.Kind, version mcp.Version, item []byte) (found []string) {
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

func (m itemMaker) item(kind mcp.Kind) []byte {
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
	return bytesOf(item + rest[1:])
}

// Whatever a server lists, a client that holds it against its revision's schema
// finds nothing wrong with it, and what no revision defines is still there.
func TestDowngradedItemsConform(t *testing.T) {
	m := itemMaker{rand.New(rand.NewPCG(11, 25))}
	for range 300 {
		for _, kind := range mcp.Kinds {
			item := m.item(kind)
			if err := mcp.Validate(item, mcp.Limits{}); err != nil {
				t.Fatalf("%v: %s", err, item)
			}
			for _, version := range dates {
				out := Item(version, kind, item)
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
		kind   mcp.Kind
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
	base := map[mcp.Kind]string{
		mcp.Tool: `{"name":"n","inputSchema":{"type":"object"}`, mcp.Prompt: `{"name":"n"`,
		mcp.Resource: `{"uri":"x:y","name":"n"`, mcp.Template: `{"uriTemplate":"x:{y}","name":"n"`,
	}
	for _, tt := range tests {
		for _, version := range dates {
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
			if got := Item(version, tt.kind, bytesOf(in)); string(got) != want {
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
		if got := Item(mcp.V20251125, mcp.Tool, bytesOf(in)); string(got) != in {
			t.Errorf("2025-11-25: %s", got)
		}
		if got := Item(mcp.V20260728, mcp.Tool, bytesOf(in)); string(got) != want {
			t.Errorf("2026-07-28: %s, want %s", got, want)
		}
		for _, version := range dates[:rev20251125] {
			if got := Item(version, mcp.Tool, bytesOf(in)); string(got) != `{"name":"n","inputSchema":{"type":"object"}}` {
				t.Errorf("%s: %s", version, got)
			}
		}
	}
}

func TestOf(t *testing.T) {
	for version, want := range map[mcp.Version]Index{
		"": rev20241105, "2024-10-07": rev20241105, mcp.V20241105: rev20241105, mcp.V20250326: rev20250326, mcp.V20250618: rev20250618,
		"2025-11-24": rev20250618, mcp.V20251125: rev20251125, "2026-07-27": rev20251125, mcp.V20260728: revModern, "2030-01-01": revModern,
	} {
		if got := Of(version); got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
}

func BenchmarkItem(b *testing.B) {
	item := bytesOf(`{"name":"s__search","title":"Search","description":"` + strings.Repeat("Finds things. ", 40) + `","inputSchema":{"type":"object","properties":{"q":{"type":"string","description":"what"},"n":{"type":"integer"}},"required":["q"]},"annotations":{"readOnlyHint":true}}`)
	for _, version := range dates {
		b.Run(string(version), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Item(version, mcp.Tool, item)
			}
		})
	}
}

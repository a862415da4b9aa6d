package revision

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/toolgate/toolgate/internal/mcp"
)

// dates are all revisions, oldest first.
var dates = Versions[:]

var updateGoldens = flag.Bool("update", false, "write the goldens of testdata anew")

func bytesOf(s string) []byte { return []byte(s) }

// downgrades are the archives of testdata/goldens. The first line says what
// the file "in" is: the result of a method, the params of a sampling request or
// a listed item of a kind. The other files are what clients of a revision get
// for it, "same" where nothing changes.
func downgrades(t testing.TB) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "goldens", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	archives := make(map[string]*txtar.Archive, len(files))
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(archive.Files) == 0 || archive.Files[0].Name != "in" {
			t.Fatalf("%s: the first file must be \"in\"", file)
		}
		archives[file] = archive
	}
	return archives
}

// downgradeOf returns the function for what an archive holds.
func downgradeOf(what string) func(mcp.Version, []byte) []byte {
	for _, kind := range mcp.Kinds {
		if kind.String() == what {
			return func(v mcp.Version, raw []byte) []byte { return Item(v, kind, raw) }
		}
	}
	return func(v mcp.Version, raw []byte) []byte { return Message(v, what, raw) }
}

func TestDowngradeGoldens(t *testing.T) {
	for file, archive := range downgrades(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			what, _, _ := strings.Cut(string(archive.Comment), "\n")
			downgrade := downgradeOf(what)
			in := bytes.TrimSuffix(archive.Files[0].Data, []byte("\n"))
			got := &txtar.Archive{Comment: archive.Comment, Files: archive.Files[:1:1]}
			for _, version := range dates {
				out := downgrade(version, bytes.Clone(in))
				checkDowngrade(t, downgrade, version, in, out)
				if bytes.Equal(out, in) {
					out = []byte("same")
				}
				got.Files = append(got.Files, txtar.File{Name: string(version), Data: append(slices.Clip(out), '\n')})
			}
			if *updateGoldens {
				if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want, have := txtar.Format(archive), txtar.Format(got); !bytes.Equal(want, have) {
				t.Errorf("got\n%s\nwant\n%s", have, want)
			}
		})
	}
}

// checkDowngrade checks what holds of every downgrade: it is valid, twice is
// once, and a modern client gets the bytes of the server.
func checkDowngrade(t testing.TB, downgrade func(mcp.Version, []byte) []byte, version mcp.Version, in, out []byte) {
	t.Helper()
	if err := mcp.Validate(out, mcp.Limits{LoneSurrogates: true}); err != nil {
		t.Errorf("%s: not valid: %v\nof\n%s\nmade\n%s", version, err, in, out)
		return
	}
	once := bytes.Clone(out)
	twice := downgrade(version, out)
	if !bytes.Equal(twice, once) {
		t.Errorf("%s: of\n%s\nonce\n%s\ntwice\n%s", version, in, once, twice)
	}
	if len(twice) > 0 && &twice[0] != &out[0] {
		t.Errorf("%s: what needs nothing was copied: %s", version, out)
	}
	if version.Era() == mcp.Modern && !bytes.Equal(in, out) && !bytes.Contains(in, []byte("execution")) && !bytes.Contains(in, []byte(`\u00`)) {
		t.Errorf("%s: changed\n%s\nto\n%s", version, in, out)
	}
}

// Every content block arrives as it is where the revision knows it, and as text
// where not, wherever a block can stand.
func TestDowngradedBlocks(t *testing.T) {
	blocks := map[string]struct {
		raw   string
		since mcp.Version
		text  string
	}{
		"text":     {`{"type":"text","text":"t"}`, "", ""},
		"image":    {`{"type":"image","data":"AAAA","mimeType":"image/png"}`, "", ""},
		"resource": {`{"type":"resource","resource":{"uri":"x:y","blob":"AAAA"}}`, "", ""},
		"audio":    {`{"type":"audio","data":"AAAAAA==","mimeType":"audio/wav"}`, mcp.V20250326, `[audio: type audio/wav, 4 bytes]`},
		"link":     {`{"type":"resource_link","uri":"x:y","name":"n","title":"t","mimeType":"a/b","size":3}`, mcp.V20250618, `[resource_link: name n, title t, URI x:y, type a/b, 3 bytes]`},
		"use":      {`{"type":"tool_use","id":"1","name":"n","input":{"a":1}}`, mcp.V20251125, `[tool_use: name n, id 1]` + "\n" + `{"a":1}`},
		"outcome":  {`{"type":"tool_result","toolUseId":"1","content":[]}`, mcp.V20251125, `[tool_result: for the use 1]` + "\n[]"},
		"unknown":  {`{"type":"video","data":"AAAA"}`, "", ""},
	}
	places := map[string]string{
		mcp.MethodToolsCall:  `{"content":[{"type":"text","text":"first"},%s]}`,
		mcp.MethodPromptsGet: `{"messages":[{"role":"user","content":%s}]}`,
		mcp.MethodSampling:   `{"messages":[{"content":%s,"role":"user"}],"maxTokens":1}`,
	}
	for kind, b := range blocks {
		for method, place := range places {
			if b.since == mcp.V20251125 && method != mcp.MethodSampling {
				continue // they are no blocks of tools and prompts in any revision
			}
			for _, version := range dates {
				want := fmt.Sprintf(place, b.raw)
				if version < b.since {
					want = fmt.Sprintf(place, textBlock(b.text))
				}
				if got := Message(version, method, bytesOf(fmt.Sprintf(place, b.raw))); string(got) != want {
					t.Errorf("%s in %s for %s:\n%s\nwant\n%s", kind, method, version, got, want)
				}
			}
		}
	}
}

// The structured content of a tool, by revision, value and what the text says.
func TestDowngradedStructure(t *testing.T) {
	const kept, gone, told = "kept", "gone", "told" // told: gone, and its JSON is a text
	tests := []struct {
		value, text string
		before, now string // 2025-06-18, and from then on
	}{
		{`{"a":1}`, `{"a":1}`, gone, kept},
		{`{"a":1}`, `a is one`, gone, kept},
		{`{"a":1}`, ``, told, kept},
		{`{}`, ``, told, kept},
		{`[1]`, `[ 1 ]`, gone, gone},
		{`[1]`, `[1.0]`, told, told},
		{`[1]`, `one`, told, told},
		{`[]`, ``, told, told},
		{`"s"`, `s`, gone, gone},
		{`"s"`, `"s"`, gone, gone},
		{`"s"`, `S`, told, told},
		{`9007199254740993`, `9007199254740993`, gone, gone},
		{`9007199254740993`, `9007199254740992`, told, told},
		{`false`, `False`, told, told},
		{`null`, ``, gone, gone},
	}
	for _, tt := range tests {
		for _, space := range []string{"", " ", "\n\t"} {
			content := string(textBlock(tt.text))
			in := fmt.Sprintf(`{"content":[%s],"structuredContent":%s%s,"isError":false}`, content, space, tt.value)
			for _, version := range dates {
				fate := tt.now
				switch {
				case version.Era() == mcp.Modern:
					fate = kept
				case version < mcp.V20250618:
					fate = tt.before
				}
				want := in
				switch fate {
				case gone:
					want = `{"content":[` + content + `],"isError":false}`
				case told:
					want = `{"content":[` + content + `,` + string(textBlock(tt.value)) + `],"isError":false}`
				}
				if got := Message(version, mcp.MethodToolsCall, bytesOf(in)); string(got) != want {
					t.Errorf("%s: %s\ngot  %s\nwant %s", version, in, got, want)
				}
			}
		}
	}
}

// A result that needs nothing is the same memory, and looking allocates
// nothing.
func TestDowngradedForNothing(t *testing.T) {
	for name, in := range benchResults() {
		for _, version := range dates {
			if name == "link" && version < mcp.V20250618 || name == "structured" && version < mcp.V20250618 {
				continue
			}
			out := Message(version, mcp.MethodToolsCall, in)
			if &out[0] != &in[0] || len(out) != len(in) {
				t.Errorf("%s for %s: a copy", name, version)
			}
			if n := testing.AllocsPerRun(20, func() { Message(version, mcp.MethodToolsCall, in) }); n != 0 {
				t.Errorf("%s for %s: %v allocations", name, version, n)
			}
		}
	}
	// Whatever the method, what is not one of the four passes.
	in := bytesOf(`{"content":[{"type":"audio"}],"messages":[{"content":[]}],"structuredContent":1}`)
	for _, method := range []string{"", mcp.MethodRead, mcp.MethodComplete, mcp.MethodElicit, mcp.MethodToolsList} {
		if out := Message(mcp.V20241105, method, in); &out[0] != &in[0] {
			t.Errorf("%q: %s", method, out)
		}
	}
}

// benchResults are results of tools: a small text, one of 64 KiB with escapes,
// a large image, structured content and a link.
func benchResults() map[string][]byte {
	small := string(textBlock(strings.Repeat("x", 256)))
	return map[string][]byte{
		"small":      bytesOf(`{"content":[` + small + `],"isError":false}`),
		"text":       bytesOf(`{"content":[` + string(textBlock(strings.Repeat("line of \"text\"\n", 4096))) + `]}`),
		"escaped":    bytesOf(`{"content":[{"type":"text","text":"` + strings.Repeat(`a \u003c b `, 6000) + `"}]}`),
		"image":      bytesOf(`{"content":[{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("QUJD", 1<<18) + `"}]}`),
		"structured": bytesOf(`{"content":[` + small + `],"structuredContent":{"text":"` + strings.Repeat("x", 256) + `"}}`),
		"link":       bytesOf(`{"content":[` + small + `,{"type":"resource_link","uri":"x:y","name":"n"}]}`),
	}
}

func BenchmarkMessage(b *testing.B) {
	for name, in := range benchResults() {
		for _, version := range dates {
			b.Run(name+"/"+string(version), func(b *testing.B) {
				b.SetBytes(int64(len(in)))
				b.ReportAllocs()
				for b.Loop() {
					Message(version, mcp.MethodToolsCall, in)
				}
			})
		}
	}
}

// leftovers are what a result or the params of a sampling request have that a
// legacy revision does not know.
func leftovers(t testing.TB, method string, version mcp.Version, object []byte) (found []string) {
	t.Helper()
	var whole map[string]any
	if err := json.Unmarshal(object, &whole); err != nil {
		return nil // not an object
	}
	since := map[any]string{"audio": "2025-03-26", "resource_link": "2025-06-18"}
	if method == mcp.MethodSampling {
		since["tool_use"], since["tool_result"] = "2025-11-25", "2025-11-25"
	}
	check := func(block any) {
		members, _ := block.(map[string]any)
		kind, _ := members["type"].(string)
		if string(version) < since[kind] {
			found = append(found, kind)
		}
	}
	switch method {
	case mcp.MethodToolsCall:
		structure, ok := whole["structuredContent"]
		if _, object := structure.(map[string]any); ok && (!object || version < mcp.V20250618) {
			found = append(found, "structuredContent")
		}
		content, _ := whole["content"].([]any)
		for _, block := range content {
			check(block)
		}
	case mcp.MethodPromptsGet, mcp.MethodSampling:
		messages, _ := whole["messages"].([]any)
		for _, m := range messages {
			message, _ := m.(map[string]any)
			if _, several := message["content"].([]any); several && version < mcp.V20251125 && method == mcp.MethodSampling {
				found = append(found, "several blocks")
			}
			check(message["content"])
		}
	}
	return found
}

// downgradable are the methods and kinds that a downgrade is for, and one that
// it is not for.
var downgradable = []string{
	mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodSampling, mcp.MethodRead, "tool", "prompt", "resource", "template",
}

// FuzzMessage downgrades any results, params and items. The output must be
// valid, downgrading it again must change nothing, a modern client must get
// what the server sent, and nothing may be left that the revision does not know
// or has as another type.
func FuzzMessage(f *testing.F) {
	for _, archive := range downgrades(f) {
		what, _, _ := strings.Cut(string(archive.Comment), "\n")
		f.Add(uint8(slices.Index(downgradable, what)), archive.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, what uint8, in []byte) {
		if len(in) > 1<<16 || mcp.Validate(in, mcp.Limits{LoneSurrogates: true, Depth: 100}) != nil {
			return
		}
		in = bytes.TrimSpace(in) // values come without the space around them
		name := downgradable[int(what)%len(downgradable)]
		downgrade := downgradeOf(name)
		for _, version := range dates {
			given := bytes.Clone(in)
			out := downgrade(version, given)
			if !bytes.Equal(given, in) {
				t.Fatalf("%s: the input was changed", version)
			}
			checkDowngrade(t, downgrade, version, in, out)
			if version.Era() == mcp.Modern {
				continue
			}
			for _, what := range leftovers(t, name, version, out) {
				t.Errorf("%s, %s: %s is left in\n%s", name, version, what, out)
			}
			for _, kind := range mcp.Kinds {
				if _, err := mcp.ParseItem(kind, in); err != nil || kind.String() != name {
					continue
				}
				for _, breach := range breaches(t, kind, version, out) {
					t.Errorf("%s, %s: %s\n%s", name, version, breach, out)
				}
			}
		}
	})
}

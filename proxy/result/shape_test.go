package result

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/result/jq"
)

func program(t testing.TB, source string) *jq.Program {
	t.Helper()
	if source == "" {
		return nil
	}
	p, err := jq.Compile(source)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func paths(t testing.TB, texts ...string) (out []Path) {
	t.Helper()
	for _, text := range texts {
		p, err := ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

const (
	issues     = `{"items":[{"id":1,"title":"one","user":{"url":"u1","login":"a"}},{"id":2,"title":"two","user":{"url":"u2","login":"b"}}],"n":1.50}`
	quoted     = `{\"items\":[{\"id\":1,\"title\":\"one\",\"user\":{\"url\":\"u1\",\"login\":\"a\"}},{\"id\":2,\"title\":\"two\",\"user\":{\"url\":\"u2\",\"login\":\"b\"}}],\"n\":1.50}`
	both       = `{"content":[{"type":"text","text":"` + quoted + `"}],"structuredContent":` + issues + `}`
	inText     = `{"content":[{"type":"text","text":"` + quoted + `"},{"type":"image","data":"AAAA","mimeType":"image/png"}]}`
	structured = `{"content":[{"type":"text","text":"2 issues"}],"structuredContent":` + issues + `}`
)

// manyRows is a list that is better a table.
var manyRows = "[" + strings.Repeat(`{"name":1,"other":2},`, 9) + `{"name":1,"other":2}]`

func TestShape(t *testing.T) {
	for name, tt := range map[string]struct {
		shaping   Shaping
		sel, own  string
		call      Call
		in, out   string
		note      string
		unchanged bool
	}{
		"select from structured content": {
			sel: ".items[] | {id, title}", in: both,
			out:  `{"content":[{"type":"text","text":"{\"id\":1,\"title\":\"one\"}\n{\"id\":2,\"title\":\"two\"}"}]}`,
			note: `"dev.toolgate/result":{"shaped":["select"],"whole_bytes":` + strconv.Itoa(len(both)) + `}`,
		},
		"select one object": {
			sel: "{n}", in: both,
			out: `{"content":[{"type":"text","text":"{\"n\":1.50}"}],"structuredContent":{"n":1.50}}`,
		},
		"select from a text": {
			sel: ".items | length", in: inText,
			out: `{"content":[{"type":"text","text":"2"},{"type":"image","data":"AAAA","mimeType":"image/png"}]}`,
		},
		"select from a text that is no JSON": {
			sel: `split("\n")[0]`, in: `{"content":[{"type":"text","text":"one\ntwo"}]}`, out: `{"content":[{"type":"text","text":"one"}]}`,
		},
		"select from several texts": {
			sel: `.[] | .a? // .`, in: `{"content":[{"type":"text","text":"{\"a\":1}"},{"type":"text","text":"two"}]}`,
			out: `{"content":[{"type":"text","text":"1\ntwo"}]}`,
		},
		"select nothing": {
			sel: "empty", in: both, out: `{"content":[{"type":"text","text":"[toolgate: select returned nothing.]"}]}`,
		},
		"a select that fails": {
			sel: ".items + 1", in: inText,
			out:  strings.Replace(inText, `"image/png"}]`, `"image/png"},{"type":"text","text":"[toolgate: select was not applied: cannot add: array ([{\"id\":1,\"title\":\"one\",\"u ...]) and number (1). The result is not selected from.]"}]`, 1),
			note: `"select":"select was not applied: cannot add`,
		},
		"a select that does not end": {
			sel: "last(repeat(1))", in: both, note: `"select":"select was not applied: it was stopped: it`, out: `"structuredContent":` + issues,
		},
		"the select of a model": {
			own: ".items[].title", in: both, shaping: Shaping{Own: true},
			out: `{"content":[{"type":"text","text":"one\ntwo"}]}`, note: `"shaped":["toolgate_select"]`,
		},
		"both selects": {
			sel: ".items[] | {id, title}", own: "map(.id)", in: both, out: `{"content":[{"type":"text","text":"[1,2]"}]}`, note: `"shaped":["select","toolgate_select"]`,
		},
		"what is dropped is not there for a model": {
			shaping: Shaping{Drop: paths(t, "**.url"), Own: true}, own: "[.. | .url? // empty]", in: both, out: `{"content":[{"type":"text","text":"[]"}]}`,
		},
		"drop": {
			shaping: Shaping{Drop: paths(t, "items.*.user", "nosuch")}, in: both, note: `"shaped":["drop"]`,
			out: `{"content":[{"type":"text","text":"{\"items\":[{\"id\":1,\"title\":\"one\"},{\"id\":2,\"title\":\"two\"}],\"n\":1.50}"}],"structuredContent":{"items":[{"id":1,"title":"one"},{"id":2,"title":"two"}],"n":1.50}}`,
		},
		"drop nothing":    {shaping: Shaping{Drop: paths(t, "nosuch", "items.id", "*.*.*.*.*")}, in: both, unchanged: true},
		"drop from texts": {shaping: Shaping{Drop: paths(t, "*")}, in: inText, out: `"text":"{}"},{"type":"image"`},
		"rows of a list": {
			shaping: Shaping{Rows: true}, in: `{"content":[{"type":"text","text":"` + strings.ReplaceAll(manyRows, `"`, `\"`) + `"}],"structuredContent":` + manyRows + `}`,
			out: `{"content":[{"type":"text","text":"{\"columns\":[\"name\",\"other\"],\"rows\":[[1,2],[1,2],`, note: `"shaped":["rows"]`,
		},
		"rows that are hardly smaller": {shaping: Shaping{Rows: true}, in: inText, unchanged: true},
		"rows of what is selected": {
			shaping: Shaping{Rows: true}, sel: "range(20) as $i | .items[] | {id, title}", in: both, note: `"shaped":["select","rows"]`,
			out: `{"content":[{"type":"text","text":"{\"columns\":[\"id\",\"title\"],\"rows\":[[1,\"one\"],[2,\"two\"],`,
		},
		"a model selects from values, and not from a table": {
			shaping: Shaping{Rows: true, Own: true}, sel: "range(20) as $i | .items[] | {id, title}", own: "length", in: both,
			out: `{"content":[{"type":"text","text":"40"}]}`,
		},
		"twins": {
			shaping: Shaping{Dedupe: true}, call: Call{Client: "claude-code"}, in: both, note: `"shaped":["dedupe"]`,
			out: `{"content":[{"type":"text","text":"` + quoted + `"}]}`,
		},
		"twins for an unknown client":          {shaping: Shaping{Dedupe: true}, call: Call{Client: "other"}, in: both, unchanged: true},
		"twins that an output schema asks for": {shaping: Shaping{Dedupe: true}, call: Call{Client: "claude-code", Schema: true}, in: both, unchanged: true},
		"twins for a user interface":           {shaping: Shaping{Dedupe: true}, call: Call{Client: "claude-code", Visible: true}, in: both, unchanged: true},
		"no twins":                             {shaping: Shaping{Dedupe: true}, call: Call{Client: "claude-code"}, in: structured, unchanged: true},
		"an error":                             {sel: "1", in: `{"content":[{"type":"text","text":"` + quoted + `"}],"isError":true}`, unchanged: true},
		"nothing to select from":               {sel: "1", in: `{"content":[{"type":"image","data":"AAAA"}]}`, unchanged: true},
		"no content":                           {sel: "1", in: `{}`, unchanged: true},
		"other members stay": {
			sel: ".n", in: `{"_meta":{"a/b":1},"content":[{"type":"text","text":"{\"n\":1}"}],"x":2}`,
			out: `{"_meta":{"a/b":1},"content":[{"type":"text","text":"1"}],"x":2}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.shaping.Select, tt.call.Own = program(t, tt.sel), program(t, tt.own)
			var notes Notes
			got := string(tt.shaping.Shape(t.Context(), &tt.call, []byte(tt.in), &notes))
			if err := mcp.Validate([]byte(got), mcp.Limits{}); err != nil {
				t.Fatalf("%s: %v", got, err)
			}
			if tt.unchanged {
				if got != tt.in || notes.Member() != nil {
					t.Errorf("got %s\nnote %s", got, notes.Member())
				}
				return
			}
			if !strings.Contains(got, tt.out) || !strings.Contains(string(notes.Member()), tt.note) {
				t.Errorf("got %s\nwant %s\nnote %s\nwant %s", got, tt.out, notes.Member(), tt.note)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	const in = `{ "a" : 1 , "b" : [ { "a" : 2 , "c" : { "a" : 3 } } , [ { "a" : 4 } ] ] , "é" : 5 }`
	for text, want := range map[string]string{
		"a":          `{"b" :[ { "a" : 2 , "c" : { "a" : 3 } } , [ { "a" : 4 } ] ],"é":5}`,
		"b.*.a":      `{"a":1,"b":[{"c":{ "a" : 3 }},[ { "a" : 4 } ]],"é":5}`,
		"**.a":       `{"b":[{"c":{}},[{}]],"é":5}`,
		"b.**.c":     `{"a":1,"b":[{"a":2},[{ "a" : 4 }]],"é":5}`,
		"b.*":        `{"a":1,"b":[],"é":5}`,
		"*":          `{}`,
		"é":          `{"a":1,"b":[ { "a" : 2 , "c" : { "a" : 3 } } , [ { "a" : 4 } ] ]}`,
		"**.c.a":     `{"a":1,"b":[{"a":2,"c":{}},[{"a":4}]],"é":5}`,
		"b.a":        in,
		"x.**.a":     in,
		"**.**.a":    `{"b":[{"c":{}},[{}]],"é":5}`,
		"b.*.*.a":    `{"a":1,"b":[{"a":2,"c":{}},[{}]],"é":5}`,
		"b.*.c.*.no": in,
	} {
		got, some := without([]byte(in), paths(t, text))
		if some != (want != in) || string(mcp.AppendCanonical(nil, got)) != string(mcp.AppendCanonical(nil, []byte(want))) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, bad := range []string{"", "a..b", ".a", "a.", "a.**", "**", strings.Repeat("a.", 16) + "a"} {
		if p, err := ParsePath(bad); err == nil {
			t.Errorf("%q is read as %v", bad, p)
		}
	}
}

func TestTable(t *testing.T) {
	many := func(object string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(object+",", n), ",") + "]"
	}
	for in, want := range map[string]string{
		many(`{"name":1,"other":2}`, 4): `{"columns":["name","other"],"rows":[[1,2],[1,2],[1,2],[1,2]]}`,
		many(`{"name":1,"other":2}`, 3): "", // hardly smaller
		`[{"name":1,"other":2},{"other":4,"name":3},{ "name" : 5, "other" : 6 },{"name":7,"other":8}]`: `{"columns":["name","other"],"rows":[[1,2],[3,4],[5,6],[7,8]]}`,
		`[{"name":1,"other":2},{"name":3},{"name":5,"other":6}]`:                                       "",
		`[{"name":1},{"name":2,"other":3}]`:                                                            "",
		`[{"name":1,"name2":2},{"name":1,"name3":2}]`:                                                  "",
		many(`{}`, 50):     "",
		many(`1`, 50):      "",
		many(`{"a":1}`, 1): "",
		many(`{"a":"`+strings.Repeat("x", 100)+`"}`, 20):      "", // hardly smaller
		`{"x":` + many(`{"name":1,"other":2}`, 9) + `,"y":1}`: `{"x":{"columns":["name","other"],"rows":[[1,2],[1,2],[1,2],[1,2],[1,2],[1,2],[1,2],[1,2],[1,2]]},"y":1}`,
	} {
		got, some := tabled([]byte(in))
		if some != (want != "") || some && string(got) != want || !some && string(got) != in {
			t.Errorf("%s became %s", in, got)
		}
		if some && len(got)*100 > len(in)*rowsAt {
			t.Errorf("%s became %s, which is hardly smaller", in, got)
		}
	}
}

func TestOwn(t *testing.T) {
	s := Shaping{Own: true}
	const input = `{"type":"object","properties":{"q":{"type":"string"}},"additionalProperties":false}`
	tool := string(s.Listed([]byte(`{"name":"t","inputSchema":` + input + `,"outputSchema":{"type":"object"}}`)))
	if mcp.LookupSpan([]byte(tool), "inputSchema", "properties", OwnSelect, "description").Absent() || strings.Contains(tool, "outputSchema") || !strings.Contains(tool, `"q":{"type":"string"}`) {
		t.Errorf("listed as %s", tool)
	}
	if got := string(s.Listed([]byte(`{"name":"t","inputSchema":{"type":"object"}}`))); !strings.Contains(got, OwnSelect) {
		t.Errorf("listed as %s", got)
	}
	args, program := s.Arguments([]byte(input), []byte(`{"toolgate_select":".a","q":"x"}`))
	if string(args) != `{"q":"x"}` || string(program) != `".a"` {
		t.Errorf("%s, %s", args, program)
	}
	own := `{"type":"object","properties":{"toolgate_select":{"type":"string"}}}`
	given := `{"toolgate_select":"x"}`
	if args, program := s.Arguments([]byte(own), []byte(given)); string(args) != given || program != nil || !s.Shadowed([]byte(own)) {
		t.Errorf("the argument of a tool is taken from it: %s, %s", args, program)
	}
	if got := s.Listed([]byte(`{"name":"t","inputSchema":` + own + `}`)); string(mcp.Lookup(got, "inputSchema")) != own {
		t.Errorf("listed as %s", got)
	}
	off := Shaping{}
	if args, program := off.Arguments([]byte(input), []byte(given)); string(args) != given || program != nil {
		t.Errorf("%s, %s", args, program)
	}
	for program, want := range map[string]string{
		`1`:         "toolgate_select is a text with a jq filter, such as .items[] | {id, title}",
		`".items["`: "toolgate_select does not compile: it ends too early, at character 8",
		`"env"`:     "toolgate_select does not compile: env is not known here: there is no environment",
		`null`:      "",
	} {
		if _, err := OwnProgram([]byte(program)); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// FuzzShape: whatever is shaped stays valid, and what is not changed stays the same.
func FuzzShape(f *testing.F) {
	for _, in := range []string{both, inText, structured, `{}`, `{"content":[{"type":"text","text":"[{},{}]"},1,null]}`, `{"content":1,"structuredContent":[1]}`} {
		for _, source := range []string{".", ".items[]", "empty", "error", ".. | numbers"} {
			f.Add(in, source, "**.url")
		}
	}
	f.Fuzz(func(t *testing.T, in, source, path string) {
		if !mcp.IsObject([]byte(in)) || mcp.Validate([]byte(in), mcp.Limits{}) != nil {
			return
		}
		s := Shaping{Rows: true, Dedupe: true}
		if p, err := ParsePath(path); err == nil {
			s.Drop = []Path{p}
		}
		if p, err := jq.Compile(source); err == nil {
			s.Select = p
		}
		var notes Notes
		out := s.Shape(t.Context(), &Call{Client: "claude-code"}, []byte(in), &notes)
		if err := mcp.Validate(out, mcp.Limits{Depth: 2500}); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if !notes.Shaped() && string(out) != in {
			t.Fatalf("%s became %s without a note", in, out)
		}
		if member := notes.Member(); member != nil && mcp.Validate(append(append([]byte{'{'}, member...), '}'), mcp.Limits{}) != nil {
			t.Fatalf("the note is %s", member)
		}
	})
}

// BenchmarkShape is everything at once, on 100 KB.
func BenchmarkShape(b *testing.B) {
	text := `{"items":[{"id":0}`
	for i := 1; len(text) < 100<<10; i++ {
		text += fmt.Sprintf(`,{"id":%d,"title":"Issue number %d","user":{"login":"someone","url":"https://example.com/u/%d"},"body":"A text of some length that describes what is wrong."}`, i, i, i)
	}
	whole := append(append([]byte(`{"content":[{"type":"text","text":`), mcp.Quote(text+"]}")...), "}]}"...)
	s := Shaping{Select: program(b, ".items[] | {id, title}"), Drop: paths(b, "**.url"), Rows: true}
	b.SetBytes(int64(len(whole)))
	for b.Loop() {
		var notes Notes
		s.Shape(b.Context(), &Call{}, whole, &notes)
	}
}

// TestDeepTables: lists in lists are looked at once each, whatever their depth.
func TestDeepTables(t *testing.T) {
	const depth = 100
	deep := strings.Repeat(`[{"a":`, depth) + "1" + strings.Repeat("}]", depth)
	if got, some := tabled([]byte(deep)); some {
		t.Errorf("a list of one object became a table: %.100s", got)
	}
	pairs := strings.Repeat(`[{"a":`, 12) + "1" + strings.Repeat(`},{"a":1}]`, 12)
	tabled([]byte(pairs))
}

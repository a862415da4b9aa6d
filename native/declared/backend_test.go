package declared

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/placeholder"
)

// schema is one whose arguments are these: those that end in ? are not required,
// and one with = has a default.
func schema(args ...string) json.RawMessage {
	properties, required := map[string]any{}, []string{}
	for _, a := range args {
		name, value, has := strings.Cut(a, "=")
		name, optional := strings.CutSuffix(name, "?")
		properties[name] = map[string]any{}
		if has {
			properties[name] = map[string]any{"default": value}
		}
		if !has && !optional {
			required = append(required, name)
		}
	}
	raw, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required})
	if err != nil {
		panic(err)
	}
	return raw
}

func backend(t *testing.T, tools ...Tool) *Backend {
	t.Helper()
	for i := range tools {
		if tools[i].Name == "" {
			tools[i].Name = "it"
		}
	}
	b, err := New("tools", tools)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func calling(args string) *mcp.Call {
	return &mcp.Call{Method: mcp.MethodToolsCall, Params: []byte(`{"name":"it","arguments":` + args + `}`)}
}

// answerOfCall returns the text of a result, what is structured in it, and
// whether it is an error.
func answerOfCall(t *testing.T, b *Backend, args string) (text, structured string, failed bool) {
	t.Helper()
	got, err := b.Call(t.Context(), calling(args))
	if err != nil {
		t.Fatal(err)
	}
	if err := mcp.Validate(got.Result, mcp.Limits{}); err != nil {
		t.Fatalf("%s: %v", got.Result, err)
	}
	content := mcp.Lookup(got.Result, "content")
	for e := range mcp.Elements(content) {
		text, _ = mcp.LookupString(e.Of(content), "text")
	}
	return text, string(mcp.Lookup(got.Result, "structuredContent")), string(mcp.Lookup(got.Result, "isError")) == "true"
}

// TestBadTools are refused when they are loaded, in words for the operator.
func TestBadTools(t *testing.T) {
	get := func(url string) *HTTP { return &HTTP{URL: url} }
	command := func(args ...string) *Command { return &Command{Args: args} }
	for name, tc := range map[string]struct {
		tool Tool
		want string
	}{
		"no name":               {Tool{HTTP: get("https://a.example")}, "the tool without a name"},
		"a name of others":      {Tool{Name: "a b", HTTP: get("https://a.example")}, "letters, digits"},
		"a long name":           {Tool{Name: strings.Repeat("a", 46), HTTP: get("https://a.example")}, "1 to 45"},
		"nothing":               {Tool{Name: "a"}, "a request, a command or steps"},
		"both":                  {Tool{Name: "a", HTTP: get("https://a.example"), Command: command("/bin/ls")}, "a request, a command or steps"},
		"a host from arguments": {Tool{Name: "a", Input: schema("h"), HTTP: get("https://{h}/")}, "in its host"},
		"an undeclared place":   {Tool{Name: "a", HTTP: get("https://a.example/{x}")}, "{x} is not a property"},
		"a schema of a list":    {Tool{Name: "a", Input: []byte(`{"type":"array"}`), HTTP: get("https://a.example")}, "input_schema must be an object"},
		"a schema twice":        {Tool{Name: "a", Input: []byte(`{"type":"object","type":"object"}`), HTTP: get("https://a.example")}, "input_schema"},
		"a method":              {Tool{Name: "a", HTTP: &HTTP{URL: "https://a.example", Method: "CONNECT"}}, "the method"},
		"a body to get":         {Tool{Name: "a", HTTP: &HTTP{URL: "https://a.example", Body: []byte(`{}`)}}, "has no body"},
		"a header of its own":   {Tool{Name: "a", HTTP: &HTTP{URL: "https://a.example", Headers: map[string]string{"host": "b"}}}, "the connection's own"},
		"a header's name":       {Tool{Name: "a", HTTP: &HTTP{URL: "https://a.example", Headers: map[string]string{"a b": "c"}}}, "not the name of a header"},
		"a header's value":      {Tool{Name: "a", HTTP: &HTTP{URL: "https://a.example", Headers: map[string]string{"a": "b\r\nc: d"}}}, "line break"},
		"a header twice": {Tool{Name: "a", Input: schema("x"), HTTP: &HTTP{
			URL: "https://a.example", Headers: map[string]string{"X-A": "b"}, HeaderTemplates: map[string]string{"x-a": "{x}"},
		}}, "there twice"},
		"a header left out": {Tool{Name: "a", Input: schema("x?"), HTTP: &HTTP{URL: "https://a.example", HeaderTemplates: map[string]string{"x-a": "{x}"}}}, "must require it"},
		"an answer":         {Tool{Name: "a", Answer: "items", HTTP: get("https://a.example")}, "neither a pointer"},
		"half a path":       {Tool{Name: "a", Answer: "$.a[", HTTP: get("https://a.example")}, "without a ]"},
		"a program":         {Tool{Name: "a", Command: command("ls")}, "by an absolute path"},
		"a program's place": {Tool{Name: "a", Input: schema("x"), Command: command("/bin/{x}")}, "the program has a place"},
		"no program":        {Tool{Name: "a", Command: command()}, "names no program"},
		"optional argument": {Tool{Name: "a", Input: schema("x?"), Command: command("/bin/ls", "{x}")}, "must require it or give its default"},
		"a shell":           {Tool{Name: "a", Input: schema("x"), Command: command("/bin/sh", "-c", "ls {x}")}, "run as code"},
		"after a shell":     {Tool{Name: "a", Input: schema("x"), Command: command("/bin/bash", "-ec", "ls $1", "x", "{x}")}, "run as code"},
		"a shell in env":    {Tool{Name: "a", Input: schema("x"), Command: command("/usr/bin/env", "sh", "-c", "{x}")}, "run as code"},
		"code beside -c":    {Tool{Name: "a", Input: schema("x"), Command: command("/usr/bin/python3", "-I", "-c{x}")}, "run as code"},
		"code beside -e":    {Tool{Name: "a", Input: schema("x"), Command: command("/usr/bin/perl", "-e{x}")}, "run as code"},
		"code in an option": {Tool{Name: "a", Input: schema("x"), Command: command("/usr/bin/node", "--eval={x}")}, "run as code"},
		"python":            {Tool{Name: "a", Input: schema("x"), Command: command("/usr/bin/python3.11", "-c", "{x}")}, "run as code"},
		"another machine":   {Tool{Name: "a", Input: schema("x"), Command: command("/usr/bin/ssh", "host", "ls", "{x}")}, "run as code"},
		"all arguments":     {Tool{Name: "a", Command: command("/bin/ls", "{*}")}, "belongs into stdin"},
		"dashes of nothing": {Tool{Name: "a", Command: &Command{Args: []string{"/bin/ls"}, Dashes: []string{"x"}}}, "dashes names x"},
		"a folder":          {Tool{Name: "a", Command: &Command{Args: []string{"/bin/ls"}, Dir: "here"}}, "must be absolute"},
		"a variable":        {Tool{Name: "a", Command: &Command{Args: []string{"/bin/ls"}, Env: map[string]string{"A=B": "c"}}}, "cannot be in an environment"},
		"a brace":           {Tool{Name: "a", Command: command("/bin/ls", "{")}, "begins no {name}"},
		"a closing brace":   {Tool{Name: "a", Command: command("/bin/ls", "}")}, "ends nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New("tools", []Tool{tc.tool}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v; want %s", err, tc.want)
			}
		})
	}
	if _, err := New("tools", []Tool{{Name: "a", HTTP: get("https://a.example")}, {Name: "a", HTTP: get("https://a.example")}}); err == nil {
		t.Error("two tools have one name")
	}
}

func TestListing(t *testing.T) {
	yes := true
	b := backend(t,
		Tool{Name: "b", Title: "B", Description: "Does b.", ReadOnly: &yes, Input: []byte(`{"type":"object","properties":{"n":{"maximum":12345678901234567890}}}`), HTTP: &HTTP{URL: "https://a.example"}},
		Tool{Name: "a", Output: []byte(`{"type":"object"}`), HTTP: &HTTP{URL: "https://a.example"}},
	)
	l, status := b.Listing()
	var got []string
	for _, item := range l.Items[mcp.Tool] {
		got = append(got, string(item.Raw))
	}
	want := []string{
		`{"name":"a","inputSchema":{"type":"object","additionalProperties":false},"outputSchema":{"type":"object"},"annotations":{}}`,
		`{"name":"b","title":"B","description":"Does b.","inputSchema":{"type":"object","properties":{"n":{"maximum":12345678901234567890}}},"annotations":{"readOnlyHint":true}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" || status.State != mcp.Ready || b.Name() != "tools" || b.Probe(t.Context()) != nil {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, call := range []*mcp.Call{
		{Method: mcp.MethodToolsCall, Params: []byte(`{"name":"c"}`)},
		{Method: "prompts/get", Params: []byte(`{"name":"a"}`)},
	} {
		if got, err := b.Call(t.Context(), call); err != nil || got.Fault == nil {
			t.Errorf("%s: %v, %v", call.Method, got, err)
		}
	}
}

func TestBody(t *testing.T) {
	for name, tc := range map[string]struct{ body, args, want string }{
		"typed":           {`{"n":"{n}","b":"{b}","o":"{o}","l":["{n}",1]}`, `{"n":12345678901234567890,"b":true,"o":{"x": 1.50}}`, `{"n":12345678901234567890,"b":true,"o":{"x": 1.50},"l":[12345678901234567890,1]}`},
		"in a text":       {`{"t":"a {n} {b} {{c}}"}`, `{"n":"x\"y","b":7}`, `{"t":"a x\"y 7 {c}"}`},
		"left out":        {`{"a":"{n}","b":1,"c":["{n}","{b}"],"d":{"e":"{n}"}}`, `{"b":2}`, `{"b":1,"c":[2],"d":{}}`},
		"no injection":    {`{"a":"{n}","role":"user"}`, `{"n":"x\",\"role\":\"admin"}`, `{"a":"x\",\"role\":\"admin","role":"user"}`},
		"everything":      {`{"args":"{*}"}`, `{"n":1.0}`, `{"args":{"n":1.0}}`},
		"a null":          {`{"a":"{n}"}`, `{"n":null}`, `{"a":null}`},
		"not looked into": {`{"a":"{n}"}`, `{"n":"{b}","b":"secret"}`, `{"a":"{b}"}`},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := placeholder.ParseValue([]byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			got, ok, err := b.Append(nil, (&compiled{}).values([]byte(tc.args)), []byte(tc.args))
			if err != nil || !ok || string(got) != tc.want || mcp.Validate(got, mcp.Limits{}) != nil {
				t.Errorf("%s, %v, %v; want %s", got, ok, err, tc.want)
			}
		})
	}
	if _, err := placeholder.ParseValue([]byte(strings.Repeat("[", 100) + strings.Repeat("]", 100))); err == nil {
		t.Error("a deep body is taken")
	}
	b, err := placeholder.ParseValue([]byte(`"a {n}"`))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{`{}`, `{"n":[1]}`, `{"n":{}}`, `{"n":null}`, `{"n":"\u0000"}`} {
		if _, _, err := b.Append(nil, (&compiled{}).values([]byte(args)), nil); err == nil {
			t.Errorf("%s goes into a text", args)
		} else if _, ok := errors.AsType[placeholder.Problem](err); !ok {
			t.Error(err)
		}
	}
}

func TestPath(t *testing.T) {
	const doc = `{"items":[{"name":"a","n":1},{"n":2},{"name":"c","x":{"y":[1,[2,3]]}}],"a/b":{"~":4},"0":5}`
	for path, want := range map[string]string{
		"": doc, "$": doc, "/items/0/name": `"a"`, "$.items[0].name": `"a"`, "$.items[*].name": `["a","c"]`, "$.items[*].n": `[1,2]`,
		"/a~1b/~0": "4", "/0": "5", "$['a/b']['~']": "4", "$.items[2].x.y[1][0]": "2", "/items/2/x/y/1/1": "3", "/items/-1": "", "/items/9": "",
		"$.items.name": "", "$[0]": "", "$.none": "", "$.items[*].x.y[*]": "[[1,[2,3]]]", "/items/00/n": "1",
	} {
		p, err := parsePath(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got := p.of([]byte(doc)); string(got) != want {
			t.Errorf("%s leads to %s; want %s", path, got, want)
		}
	}
	for _, path := range []string{"items", "$x", "$.", "$..a", "$[", "$[x]", "$[-1]", "$" + strings.Repeat("[*]", 4), strings.Repeat("/a", 40)} {
		if _, err := parsePath(path); err == nil {
			t.Errorf("%s is taken", path)
		}
	}
}
